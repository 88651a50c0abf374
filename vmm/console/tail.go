package console

import (
	"strings"
	"sync"
)

// Tail keeps the last bytes written to it.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

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

// Lines are the lines kept, without the program's name.
func (t *Tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.FieldsFunc(string(t.buf), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(l), "qemu-system-x86_64: "), "error: ")
	}
	return lines
}

// OneLine joins the last lines for an error message.
func (t *Tail) OneLine() string {
	lines := t.Lines()
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// FirstLine is the first line kept.
func (t *Tail) FirstLine() string {
	if lines := t.Lines(); len(lines) > 0 {
		return lines[0]
	}
	return "it said nothing"
}
