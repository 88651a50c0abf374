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

// oldSegments lists the full segments, oldest first. It ignores files that are not ours.
func oldSegments(dir string) ([]string, error) {
	return filepath.Glob(filepath.Join(dir, "log-[0-9][0-9][0-9][0-9][0-9][0-9].jsonl"))
}

// Verified describes a log that verifies.
type Verified struct {
	Entries uint64 // lines read
	First   uint64 // number of the first; above 1 when older ones were let go of
	Last    uint64
	Head    string // hash of the last line: keep it elsewhere to notice later that the end was cut off
}

// Verify reads a whole log and checks every hash, the chain and the numbers. The error says where
// the chain breaks, as FILE:LINE. It cannot detect that lines at the end are missing, nor that the
// whole log was made anew: see Verified.Head. A log without a line verifies.
func Verify(dir string) (Verified, error) {
	var v Verified
	prev := ""
	_, err := readSince(dir, nil, func(where string, b []byte, whole bool) error {
		if !whole && len(b) <= maxLine && strings.HasPrefix(where, current) {
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

// Read passes the entries of a log to visit, oldest first, until visit returns an error, which it
// returns; it skips lines that cannot be read, which Verify reports. No log is no error.
func Read(dir string, visit func(Entry) error) error {
	_, err := readSince(dir, nil, entries(visit))
	return err
}

// entries shows only whole, valid lines: the last one may be half written just now.
func entries(visit func(Entry) error) visitor {
	return func(_ string, b []byte, whole bool) error {
		if l, err := decodeLine(b); whole && err == nil {
			return visit(l.Entry)
		}
		return nil
	}
}

// visitor gets one line: where it is, its bytes without newline, and whether it had one.
type visitor func(where string, b []byte, whole bool) error

// readSince shows the lines of a log, oldest first. last is its previous result: if no segment was
// started since then, it shows only the lines of the current one, and none if that has not grown.
//
// The current segment is opened before the full ones are listed, so that one that is started
// meanwhile hides no line.
func readSince(dir string, last os.FileInfo, visit visitor) (now os.FileInfo, err error) {
	f, err := os.Open(filepath.Join(dir, current))
	if err == nil {
		defer f.Close()
		now, err = f.Stat()
	}
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if now != nil && last != nil && os.SameFile(last, now) {
		if now.Size() == last.Size() {
			return now, nil
		}
		return now, readLines(f, visit)
	}
	full, err := oldSegments(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range full {
		if info, err := os.Stat(path); err == nil && now != nil && os.SameFile(info, now) {
			continue // it was the current one a moment ago, and is f
		}
		if err := readFile(path, visit); err != nil && !os.IsNotExist(err) { // one may be let go of meanwhile
			return nil, err
		}
	}
	if now == nil {
		return nil, nil
	}
	return now, readLines(f, visit)
}

func readFile(path string, visit visitor) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return readLines(f, visit)
}

// readLines shows the lines of a segment. A line longer than any of ours comes in pieces, of which
// only the last is whole, so that it needs no memory.
func readLines(f *os.File, visit visitor) error {
	r := bufio.NewReaderSize(f, maxLine+1)
	for n := 1; ; n++ {
		b, err := r.ReadSlice('\n')
		if text, whole := bytes.CutSuffix(b, []byte("\n")); len(b) > 0 {
			if err := visit(fmt.Sprintf("%s:%d", filepath.Base(f.Name()), n), text, whole); err != nil {
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
// dependency for a delay that nobody notices.
const followEvery = 100 * time.Millisecond

// Follow passes entries with numbers above after to visit, in order and each once, and new ones as
// they are written, until the context ends, which is no error. It skips entries that were removed
// before they could be read. An error of visit ends it.
func Follow(ctx context.Context, dir string, after uint64, visit func(Entry) error) error {
	newer := entries(func(e Entry) error {
		if e.Seq <= after {
			return nil
		}
		after = e.Seq
		return visit(e)
	})
	var last os.FileInfo
	for {
		var err error
		if last, err = readSince(dir, last, newer); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}
