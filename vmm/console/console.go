package console

import (
	"io"
	"path/filepath"
	"strings"
)

// File is the log in a machine's directory, of mode 0600: what the guest's console said. A machine
// that is started again in the same directory adds to what the one before it said.
const File = "console.log"

// Console copies what the guest says on its console to a Log, from a goroutine that ends with the
// machine.
type Console struct {
	log  Log
	last Tail
	done chan struct{}
}

// New starts copying from conn, which it owns, to the log in dir, an existing directory. The
// goroutine ends when conn is closed at its other end or fails to be read, which the end of the
// machine's process brings about. Nothing else ends it: a console whose other end some process
// still holds goes on.
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

// Wait returns when the other end of conn was closed and everything it said is in the log. Any
// number of goroutines may wait.
func (c *Console) Wait() { <-c.done }

// LastWords is the end of the console for an error message: the line of the panic if there is one.
// It begins with a colon and a space, so that it can be appended to a message, and is "" where
// nothing was said. A panic counts more than the last line, since the kernel goes on printing after
// it. The text is the guest's own and may say anything; it is shown to people and never parsed.
func (c *Console) LastWords() string {
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
