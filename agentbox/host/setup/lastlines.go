package setup

import (
	"strings"
)

// lastLines keeps the end of what a command printed.
type lastLines struct{ tail []byte }

// Write implements io.Writer.
func (l *lastLines) Write(p []byte) (int, error) {
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - maxToolOutput; over > 0 {
		l.tail = append([]byte(nil), l.tail[over:]...)
	}
	return len(p), nil
}

// String is the last three lines, joined to one.
func (l *lastLines) String() string {
	lines := strings.Split(strings.TrimSpace(string(l.tail)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
