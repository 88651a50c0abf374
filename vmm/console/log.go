package console

import (
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Limit bounds a Log's file, in bytes. A write that would exceed it begins a new file.
const Limit = 1 << 20

// Log is a file of at most Limit bytes, with its predecessor beside it under the name with .1
// appended. What cannot be written is dropped: a full disk must not stop the writer. It opens its
// file at the first write and after Close, and appends to an existing one. Any number of goroutines
// may write to it.
type Log struct {
	Path string // its directory is made where it is missing
	Perm os.FileMode

	mu   sync.Mutex
	file *os.File
	size int64
}

// Copy logs all of r and closes both. Its buffer is small, since an idle machine has one for each
// of many logs.
func (l *Log) Copy(r io.ReadCloser) {
	defer l.Close()
	defer r.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		l.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// Write implements io.Writer; it never fails.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(b)) > Limit {
		l.close()
		os.Rename(l.Path, l.Path+".1")
	}
	if len(b) > 0 && (l.file != nil || l.open()) {
		n, _ := l.file.Write(b)
		l.size += int64(n)
	}
	return len(b), nil
}

// open makes the file, or continues at its end; mu is held.
func (l *Log) open() bool {
	os.MkdirAll(filepath.Dir(l.Path), 0o755) // without it the file cannot be made either
	f, err := os.OpenFile(l.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, l.Perm)
	if err != nil {
		return false
	}
	l.file, l.size = f, 0
	if info, err := f.Stat(); err == nil {
		l.size = info.Size()
	}
	return true
}

// Close closes the file; a later Write opens it again.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

func (l *Log) close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
