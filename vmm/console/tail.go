package console

import (
	"strings"
	"sync"
)

// Tail keeps the last bytes written to it, at most tailSize. The zero value is ready for use, by
// any number of goroutines.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize is enough for a VMM's last lines and a kernel panic's traces, some KiB.
const tailSize = 16 << 10

// Write implements io.Writer; it never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(b), nil
}

// Lines are the non-empty lines kept, the oldest first, without the program's name that QEMU puts
// before each. The first may have lost its beginning.
func (t *Tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.FieldsFunc(string(t.buf), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(l), "qemu-system-x86_64: "), "error: ")
	}
	return lines
}

// OneLine joins the last three lines for an error message: QEMU's last line says what failed, those
// before it on what. It is "" if nothing was written.
func (t *Tail) OneLine() string {
	lines := t.Lines()
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// FirstLine is the first line kept: the cause, for a VMM that never got to run a guest.
func (t *Tail) FirstLine() string {
	if lines := t.Lines(); len(lines) > 0 {
		return lines[0]
	}
	return "it said nothing"
}
