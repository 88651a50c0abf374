package vmmtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"agentbox/vmm"
)

// ReadBlocks reads an image at the far end of what serves it, as a machine does. It may be called
// at once.
type ReadBlocks func(p []byte, off int64) error

// TestBlocks checks what serves a vmm.Blocks to machines: they see the image's bytes or nothing,
// wait for those that are not here for as long as that takes, and others do not wait with them.
// serve begins to serve until ctx ends. The reader that serve returns is at the far end: it goes
// through the protocol, as a machine's reads do.
func TestBlocks(t *testing.T, serve func(t *testing.T, ctx context.Context, image vmm.Blocks) ReadBlocks) {
	t.Run("Bytes", func(t *testing.T) { testBytes(t, serve) })
	t.Run("Waits", func(t *testing.T) { testWaits(t, serve) })
	t.Run("SourceFails", func(t *testing.T) { testSourceFails(t, serve) })
	t.Run("Deadline", func(t *testing.T) { testDeadline(t, serve) })
}

// scarce is an image of which a part is withheld, from the offset from to that of to. It implements
// vmm.Blocks.
type scarce struct {
	io.ReaderAt
	size     int64
	from, to int64
	come     chan struct{} // closed when the part may be read
	asked    chan struct{} // gets something when the part is wanted

	mu   sync.Mutex
	fail error
}

// Of a made-up image the size is no multiple of any block, so the end is tested, too; the part is
// far enough from both ends for the kernel's read-ahead.
const (
	scarceSize = 4<<20 + 123
	scarceFrom = 2 << 20
	scarceTo   = scarceFrom + 64<<10
)

// newScarce makes up an image. Each byte tells its place, roughly, so a read from the wrong place is
// seen.
func newScarce() *scarce {
	content := make([]byte, scarceSize)
	for i := range content {
		content[i] = byte(1 + i>>4%255) // none is zero: zeros are what was not read
	}
	return withhold(bytes.NewReader(content), scarceSize, scarceFrom, scarceTo)
}

// withhold keeps a part of an image back until come is closed.
func withhold(image io.ReaderAt, size, from, to int64) *scarce {
	return &scarce{ReaderAt: image, size: size, from: from, to: to, come: make(chan struct{}), asked: make(chan struct{}, 1)}
}

func (s *scarce) Size() int64 { return s.size }

func (s *scarce) ReadBlocks(ctx context.Context, p []byte, off int64) error {
	if off < s.to && off+int64(len(p)) > s.from {
		select {
		case s.asked <- struct{}{}:
		default: // somebody was told
		}
		select {
		case <-s.come:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if _, err := s.ReadAt(p, off); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

func (s *scarce) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *scarce) expect(off int64, n int) []byte {
	p := make([]byte, n)
	s.ReadAt(p, off)
	return p
}

func (s *scarce) check(t *testing.T, read ReadBlocks, off int64, n int) {
	t.Helper()
	p := make([]byte, n)
	if err := read(p, off); err != nil {
		t.Errorf("%d bytes at %d: %v", n, off, err)
	} else if !bytes.Equal(p, s.expect(off, n)) {
		t.Errorf("%d bytes at %d are others", n, off)
	}
}

type serveBlocks = func(t *testing.T, ctx context.Context, image vmm.Blocks) ReadBlocks

// testBytes reads whole and odd ranges, alone and from many goroutines.
func testBytes(t *testing.T, serve serveBlocks) {
	s := newScarce()
	close(s.come)
	read := serve(t, t.Context(), s)
	for _, r := range []struct {
		off int64
		n   int
	}{{0, 1}, {4095, 4098}, {scarceSize - 1, 1}, {scarceFrom - 5, 70 << 10}, {0, scarceSize}} {
		s.check(t, read, r.off, r.n)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				s.check(t, read, int64((i*99991+w*777777)%(scarceSize-9000)), 9000)
			}
		})
	}
	wg.Wait()
}

func (s *scarce) begin(read ReadBlocks) (p []byte, done chan error) {
	p, done = make([]byte, 1000), make(chan error, 1)
	go func() { done <- read(p, scarceFrom+500) }()
	<-s.asked
	return p, done
}

// testWaits has one read wait while others go on, and then get what came.
func testWaits(t *testing.T, serve serveBlocks) {
	s := newScarce()
	read := serve(t, t.Context(), s)
	p, done := s.begin(read)
	s.check(t, read, 100, 1000)
	s.check(t, read, 3<<20, 1000)
	select {
	case err := <-done:
		t.Fatalf("a read of what is not here ended: %v", err)
	case <-time.After(50 * time.Millisecond): // one that gives up later is seen by what it has read
	}
	close(s.come)
	if err := <-done; err != nil || !bytes.Equal(p, s.expect(scarceFrom+500, 1000)) {
		t.Errorf("what came at last: %v", err)
	}
}

// A source that says no, for good: nothing is made up, and what it has later is read. The range was
// not read before, so no cache answers.
func testSourceFails(t *testing.T, serve serveBlocks) {
	s := newScarce()
	close(s.come)
	read := serve(t, t.Context(), s)
	s.fails(errors.New("gone"))
	if err := read(make([]byte, 1000), 3<<20); err == nil {
		t.Error("what the source did not give was read")
	}
	s.fails(nil)
	s.check(t, read, 3<<20, 1000)
}

// testDeadline ends serving while a read waits: the read must fail, and not hang.
func testDeadline(t *testing.T, serve serveBlocks) {
	s := newScarce()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := serve(t, ctx, s)
	_, done := s.begin(read)
	cancel()
	if err := <-done; err == nil {
		t.Error("what never came was read")
	}
}
