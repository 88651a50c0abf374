//go:build linux

package agent

import (
	"io"
	"os"
	"path/filepath"
	"sync"
)

// maxLog bounds a service's log; when it is full it becomes <name>.log.old, so at most twice as
// much is kept.
const maxLog = 1 << 20

// boundedLog is a log file. What cannot be written is dropped: a full disk must not stop a service.
// Several goroutines may write to it. It opens its file at the first byte, and again after it was
// closed.
type boundedLog struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

// copy logs all that r has and closes it. It is a goroutine of its caller's, and ends with r.
func (l *boundedLog) copy(r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			l.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// Write implements io.Writer; it never fails. A log that is full is moved aside first.
func (l *boundedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(b)) > maxLog {
		l.file.Close()
		l.file = nil
		os.Rename(l.path, l.path+".old")
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return len(b), nil
		}
	}
	n, _ := l.file.Write(b)
	l.size += int64(n)
	return len(b), nil
}

// open makes the file, or goes on at its end; mu is held.
func (l *boundedLog) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	l.file, l.size = f, 0
	if st, err := f.Stat(); err == nil {
		l.size = st.Size()
	}
	return nil
}

// close closes the file; a later Write opens it again.
func (l *boundedLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
