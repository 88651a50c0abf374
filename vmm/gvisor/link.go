package gvisor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"agentbox/vmm/gvisor/plan"
)

// link is the cable: a packet socket on the other end of the pair of interfaces of which the sandbox has one. What comes
// too fast for the buffers of the two sockets is lost, as on any Ethernet.
type link struct {
	file *os.File

	mu  sync.Mutex // guards buf
	buf []byte     // the frame being written
}

// newLink takes over a packet socket that does not block.
func newLink(fd int) *link { return &link{file: os.NewFile(uintptr(fd), "cable")} }

func (l *link) MTU() int { return plan.MTU }

// ReadFrame gives the guest's next frame. A long one is no error here but cut off: none is longer than the 64 KiB that
// the kernel gives a segment.
func (l *link) ReadFrame(buf []byte) (int, error) {
	n, err := l.file.Read(buf)
	if err != nil {
		return 0, fmt.Errorf("the machine's network cable: %w", err)
	}
	return n, nil
}

func (l *link) WriteFrame(parts ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = l.buf[:0]
	for _, p := range parts {
		l.buf = append(slices.Grow(l.buf, len(p)), p...)
	}
	_, err := l.file.Write(l.buf)
	if errors.Is(err, syscall.ENOBUFS) {
		return nil // lost
	}
	if err != nil {
		return fmt.Errorf("the machine's network cable: %w", err)
	}
	return nil
}

// Close is safe to call again.
func (l *link) Close() error {
	if err := l.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
