package policy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// segmentSize is in bytes, segments counts the current one: 128 MiB in all. A box that floods
// its log loses its oldest entries, and the host no more space than this.
const (
	segmentSize = 16 << 20
	segments    = 8
)

// current is the name of the segment that is written. Full ones are renamed, with increasing
// numbers.
const (
	current     = "log.jsonl"
	segmentName = "log-%06d.jsonl"
)

// Log is the audit log of one box: a directory with lines of JSON, chained by hashes. One process
// writes it, the box's supervisor; any may read it at the same time. Every entry is in the kernel's
// hands when Append returns, so the death of the process loses none. A power cut may lose the last
// ones: a sync for each flow would cost more than many flows do. Its methods may be called
// concurrently.
type Log struct {
	dir, box string
	limit    int64 // bytes of a segment

	// mu guards the fields below. It is held during a write, so that lines are in the order of
	// their numbers.
	mu sync.Mutex
	// file is the current segment, nil once the log is closed or failed to start one.
	file *os.File
	size int64
	seq  uint64
	// prev is the hash of the last line.
	prev string
	// failed is why nothing can be written any more; it is final.
	failed error
}

// OpenLog opens the log in dir for appending, and makes dir (0700) if need be. A line that a crash
// left unfinished is cut off, and an entry records that. box goes into every entry. OpenLog reads
// the current segment from the start, to find its last line.
func OpenLog(dir, box string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{dir: dir, box: box, limit: segmentSize, prev: genesis}
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), l.Close())
	}
	return l, nil
}

func (l *Log) open() error {
	last, err := lastOf(l.dir)
	if err != nil {
		return err
	}
	l.seq, l.prev = last.seq, last.hash
	if l.file, err = os.OpenFile(filepath.Join(l.dir, current), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if err := l.file.Truncate(last.end); err != nil {
		return err
	}
	l.size = last.end
	if torn := info.Size() - last.end; torn > 0 {
		return l.Append(Entry{Kind: KindRecovered, Reason: fmt.Sprintf("%d bytes of an unfinished line were cut off", torn)})
	}
	return nil
}

// Append writes an entry. It fills in Seq, Time and Box, and KindFlow if Kind is "". If an entry
// cannot be written, that is an error now and for every later one: a flow that cannot be logged
// should not pass, and a chain with a gap would look as if somebody had changed it.
func (l *Log) Append(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if l.file == nil {
		return errors.New("the audit log is closed")
	}
	e.Seq, e.Time, e.Box, e.Kind = l.seq+1, time.Now(), l.box, cmp.Or(e.Kind, KindFlow)
	b, hash, err := encodeLine(l.prev, e)
	if err != nil {
		return err
	}
	if l.size > 0 && l.size+int64(len(b)) > l.limit {
		err = l.rotate()
	}
	if err == nil {
		_, err = l.file.Write(b)
	}
	if err != nil {
		l.failed = fmt.Errorf("audit log: %w", err)
		return l.failed
	}
	l.seq, l.prev, l.size = e.Seq, hash, l.size+int64(len(b))
	return nil
}

// rotate starts another segment and removes the oldest. It syncs the full one, as nobody here has
// it open afterwards. The caller holds mu.
func (l *Log) rotate() error {
	if err := errors.Join(l.file.Sync(), l.file.Close()); err != nil {
		return err
	}
	l.file = nil
	old, err := oldSegments(l.dir)
	if err != nil {
		return err
	}
	number := 0
	if len(old) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(old[len(old)-1]), segmentName, &number)
	}
	if err := os.Rename(filepath.Join(l.dir, current), filepath.Join(l.dir, fmt.Sprintf(segmentName, number+1))); err != nil {
		return err
	}
	for i := 0; i < len(old)-(segments-2); i++ {
		if err := os.Remove(old[i]); err != nil {
			return err
		}
	}
	l.file, err = os.OpenFile(filepath.Join(l.dir, current), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	l.size = 0
	return err
}

// Close syncs the log to disk. Append fails afterwards; a second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	return err
}

// tail is the end of a log.
type tail struct {
	seq  uint64
	hash string
	end  int64 // of the last whole line in the current segment
}

// lastOf finds the end of a log: in the current segment, else in the newest of the old ones.
func lastOf(dir string) (tail, error) {
	t, err := tailOf(filepath.Join(dir, current))
	if err != nil && !os.IsNotExist(err) || t.seq > 0 {
		return t, err
	}
	end := t.end // above 0 where every line was changed: they stay
	old, err := oldSegments(dir)
	if err != nil || len(old) == 0 {
		return tail{hash: genesis, end: end}, err
	}
	t, err = tailOf(old[len(old)-1])
	t.end = end
	return t, err
}

// tailOf finds the last whole line of a segment. Only a line without its newline is torn: any other
// that cannot be read was changed by somebody, and stays for Verify to report; the chain continues
// after it.
func tailOf(path string) (tail, error) {
	t := tail{hash: genesis}
	var pieces int64 // of a line, so far
	err := readFile(path, func(_ string, b []byte, whole bool) error {
		pieces += int64(len(b))
		if !whole {
			return nil
		}
		t.end, pieces = t.end+pieces+1, 0
		if l, err := decodeLine(b); err == nil {
			t.seq, t.hash = l.Seq, l.Hash
		}
		return nil
	})
	return t, err
}
