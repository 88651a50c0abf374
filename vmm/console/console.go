package console

import (
	"io"
	"path/filepath"
	"strings"
)

// File is the log in a machine's directory, of mode 0600. A machine that is started again in the
// same directory appends to it.
const File = "console.log"

// Console copies what the guest prints on its console to a Log, in a goroutine that ends with the
// machine.
type Console struct {
	log  Log
	last Tail
	done chan struct{}
}

// New starts copying from conn, which it owns, to the log in dir, an existing directory. The
// goroutine ends when conn fails or every process has closed its other end, which the end of the
// machine's process brings about.
func New(dir string, conn io.ReadCloser) *Console {
	c := &Console{log: Log{Path: filepath.Join(dir, File), Perm: 0o600}, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.log.Copy(struct {
			io.Reader
			io.Closer
		}{io.TeeReader(conn, &c.last), conn})
	}()
	return c
}

// Wait returns when the other end of conn was closed and everything is in the log. Any number of
// goroutines may wait.
func (c *Console) Wait() { <-c.done }

// LastLine is the end of the console for an error message, after a colon and a space; "" if
// nothing was printed. It is the last line, or that of a kernel panic, after which the kernel
// prints more. The text is the guest's own and may say anything.
func (c *Console) LastLine() string {
	lines := c.last.Lines()
	if len(lines) == 0 {
		return ""
	}
	said := lines[len(lines)-1]
	for _, l := range lines {
		if strings.Contains(l, "Kernel panic") {
			said = l
		}
	}
	if _, rest, ok := strings.Cut(said, "] "); ok && strings.HasPrefix(said, "[") {
		said = rest // without the kernel's timestamp
	}
	return ": " + said
}
