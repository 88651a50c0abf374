package console

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// consoleLimit bounds each of the two console logs, in bytes. A write that would go beyond it
// begins a new file, so a log may be shorter by one read.
const consoleLimit = 1 << 20

// Names of the log in a machine's directory.
const (
	// In the directory given to New. Both have mode 0600 and are appended to: a machine that is
	// started again in the same directory adds to what the one before it said.
	File    = "console.log"   // what the guest's console said, bounded
	OldFile = "console.log.1" // and what it said before that
)

// Console copies what the guest says on its console to a bounded log, from a goroutine that ends
// with the machine. A log that cannot be written is dropped: a full disk must not stop the guest at
// its console.
type Console struct {
	// Only the goroutine of copy uses dir, file and size; last has a lock of its own.
	dir  string
	last Tail
	file *os.File
	size int64
	done chan struct{}
}

// New starts copying from conn, which it owns, to the log in dir, an existing directory. The
// goroutine ends when conn is closed at its other end or fails to be read, which the end of the
// machine's process brings about. Nothing else ends it: a console whose other end some process
// still holds goes on.
func New(dir string, conn io.ReadCloser) *Console {
	c := &Console{dir: dir, done: make(chan struct{})}
	go c.copy(conn)
	return c
}

// Wait returns when the other end of conn was closed and everything it said is in the log. Any
// number of goroutines may wait.
func (c *Console) Wait() { <-c.done }

// copy reads in small pieces, because a console says little at a time and a buffer for each machine
// is memory that an idle machine holds.
func (c *Console) copy(conn io.ReadCloser) {
	defer close(c.done)
	defer conn.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buf)
		c.log(buf[:n])
		if err != nil {
			break
		}
	}
	if c.file != nil {
		c.file.Close()
	}
}

// log appends to the log, and first makes it the old one where the bytes do not fit any more.
func (c *Console) log(b []byte) {
	if len(b) == 0 {
		return
	}
	c.last.Write(b)
	path := filepath.Join(c.dir, File)
	if c.file != nil && c.size+int64(len(b)) > consoleLimit {
		c.file.Close()
		c.file = nil
		os.Rename(path, filepath.Join(c.dir, OldFile))
	}
	if c.file == nil {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return
		}
		c.file, c.size = f, 0
		if info, err := f.Stat(); err == nil {
			c.size = info.Size()
		}
	}
	n, _ := c.file.Write(b)
	c.size += int64(n)
}

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
