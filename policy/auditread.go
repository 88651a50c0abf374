package policy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// oldSegments lists the full segments, oldest first. Files that are not ours are passed over.
func oldSegments(dir string) ([]string, error) {
	return filepath.Glob(filepath.Join(dir, "log-[0-9][0-9][0-9][0-9][0-9][0-9].jsonl"))
}

// Verified says what a log that verifies holds.
type Verified struct {
	Entries uint64 // lines read
	First   uint64 // number of the first; above 1 when older ones were let go of
	Last    uint64
	Head    string // hash of the last line: keep it elsewhere to notice later that the end was cut off
}

// Verify reads a whole log and checks every hash, the chain and the numbers. The error says where
// the chain breaks, as FILE:LINE. It cannot tell that lines at the end are missing, nor that all of
// it was made anew: see Verified.Head. A log without a line verifies.
func Verify(dir string) (Verified, error) {
	var v Verified
	prev := ""
	err := readAll(dir, func(where string, b []byte, whole bool) error {
		if !whole && strings.HasPrefix(where, current) {
			return nil // being written, or torn by a crash: the next OpenLog cuts it off and says so
		}
		l, err := decodeLine(b)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", where, err)
		case v.Entries == 0:
			v.First = l.Seq
			if l.Seq == 1 && l.Prev != genesis {
				return fmt.Errorf("%s: the first line follows another", where)
			}
		case l.Seq != v.Last+1:
			return fmt.Errorf("%s: entry %d follows entry %d", where, l.Seq, v.Last)
		case l.Prev != prev:
			return fmt.Errorf("%s: the chain is broken: the line before is not the one this entry followed", where)
		}
		v.Entries, v.Last, v.Head, prev = v.Entries+1, l.Seq, l.Hash, l.Hash
		return nil
	})
	return v, err
}

// Read passes the entries of a log to visit, oldest first, until visit gives an error, which it
// returns; lines that cannot be read are left to Verify. No log is no error.
func Read(dir string, visit func(Entry) error) error {
	return readAll(dir, entries(visit))
}

// entries is a visitor that shows whole, sound lines only: the last one may be half written just
// now.
func entries(visit func(Entry) error) visitor {
	return func(_ string, b []byte, whole bool) error {
		if l, err := decodeLine(b); whole && err == nil {
			return visit(l.Entry)
		}
		return nil
	}
}

// visitor sees one line: where it is, its bytes without newline, and whether it had one.
type visitor func(where string, b []byte, whole bool) error

// readAll shows every line of a log, oldest first.
func readAll(dir string, visit visitor) error {
	old, err := oldSegments(dir)
	if err != nil {
		return err
	}
	for _, path := range append(old, filepath.Join(dir, current)) {
		if err := readFile(path, visit); err != nil && !os.IsNotExist(err) { // one may be let go of meanwhile
			return err
		}
	}
	return nil
}

// readFile shows the lines of one segment. One that is longer than any of ours comes in pieces, none
// of them whole but the last, so that it needs no memory.
func readFile(path string, visit visitor) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxLine+1)
	for n := 1; ; n++ {
		b, err := r.ReadSlice('\n')
		if text, whole := bytes.CutSuffix(b, []byte("\n")); len(b) > 0 {
			if err := visit(fmt.Sprintf("%s:%d", filepath.Base(path), n), text, whole); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// followEvery is how often Follow looks for new lines. Watching the directory would be another
// dependency for what a person does not notice.
const followEvery = 100 * time.Millisecond

// errSkipped says that entries are missing between those that were seen.
var errSkipped = errors.New("entries were skipped")

// Follow passes entries with numbers above after to visit, in order and each once, and new ones as
// they are written, until the context ends, which is no error. Entries that were let go of before
// they could be read are skipped. An error of visit ends it.
func Follow(ctx context.Context, dir string, after uint64, visit func(Entry) error) error {
	// A segment may be begun between a look at the files and their reading. What is skipped then is
	// in the one before; what is still skipped when all have been read again is gone.
	newer := func(mayskip bool) func(Entry) error {
		return func(e Entry) error {
			switch {
			case e.Seq <= after:
				return nil
			case e.Seq > after+1 && !mayskip:
				return errSkipped
			}
			after = e.Seq
			return visit(e)
		}
	}
	var last os.FileInfo
	for {
		info, err := os.Stat(filepath.Join(dir, current))
		switch {
		case err != nil && !os.IsNotExist(err):
			return err
		case info == nil || last != nil && os.SameFile(last, info) && last.Size() == info.Size():
		case last != nil && os.SameFile(last, info):
			err = readFile(filepath.Join(dir, current), entries(newer(false)))
		default: // the first time, and after another segment was begun
			err = Read(dir, newer(false))
		}
		for _, mayskip := range []bool{false, true} {
			if errors.Is(err, errSkipped) {
				err = Read(dir, newer(mayskip))
			}
		}
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		last = info
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}
