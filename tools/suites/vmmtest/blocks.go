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

// ReadBlocks reads an image through what serves it, as a machine does. Calls may overlap.
type ReadBlocks func(p []byte, off int64) error

// TestBlocks checks what serves a vmm.Blocks to machines: they see the image's bytes or nothing,
// wait for missing ones as long as it takes, and do not make others wait. serve serves until ctx
// ends. Its reader goes through the protocol, as a machine's reads do.
func TestBlocks(t *testing.T, serve func(t *testing.T, ctx context.Context, image vmm.Blocks) ReadBlocks) {
	t.Run("Bytes", func(t *testing.T) { testBytes(t, serve) })
	t.Run("Waits", func(t *testing.T) { testWaits(t, serve) })
	t.Run("SourceFails", func(t *testing.T) { testSourceFails(t, serve) })
	t.Run("Deadline", func(t *testing.T) { testDeadline(t, serve) })
}

// withheldImage is a vmm.Blocks that holds back the bytes from offset from to offset to.
type withheldImage struct {
	io.ReaderAt
	size     int64
	from, to int64
	released chan struct{} // closed when the part may be read
	asked    chan struct{} // gets something when the part is wanted

	mu   sync.Mutex
	fail error
}

// The size of the made-up image is no multiple of any block, so the end is tested, too. The part
// that is held back is far enough from both ends for the kernel's read-ahead.
const (
	withheldSize = 4<<20 + 123
	withheldFrom = 2 << 20
	withheldTo   = withheldFrom + 64<<10
)

// newWithheld makes up an image. Each byte depends on its offset, so that a read from the wrong
// place shows.
func newWithheld() *withheldImage {
	content := make([]byte, withheldSize)
	for i := range content {
		content[i] = byte(1 + i>>4%255) // none is zero: zeros are what was not read
	}
	return withhold(bytes.NewReader(content), withheldSize, withheldFrom, withheldTo)
}

// withhold holds back a part of an image until released is closed.
func withhold(image io.ReaderAt, size, from, to int64) *withheldImage {
	return &withheldImage{ReaderAt: image, size: size, from: from, to: to, released: make(chan struct{}), asked: make(chan struct{}, 1)}
}

func (w *withheldImage) Size() int64 { return w.size }

func (w *withheldImage) ReadBlocks(ctx context.Context, p []byte, off int64) error {
	if off < w.to && off+int64(len(p)) > w.from {
		select {
		case w.asked <- struct{}{}:
		default: // somebody was told
		}
		select {
		case <-w.released:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if _, err := w.ReadAt(p, off); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail
}

func (w *withheldImage) fails(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

func (w *withheldImage) expect(off int64, n int) []byte {
	p := make([]byte, n)
	w.ReadAt(p, off)
	return p
}

func (w *withheldImage) check(t *testing.T, read ReadBlocks, off int64, n int) {
	t.Helper()
	p := make([]byte, n)
	if err := read(p, off); err != nil {
		t.Errorf("%d bytes at %d: %v", n, off, err)
	} else if !bytes.Equal(p, w.expect(off, n)) {
		t.Errorf("%d bytes at %d are others", n, off)
	}
}

type serveBlocks = func(t *testing.T, ctx context.Context, image vmm.Blocks) ReadBlocks

// testBytes reads whole and odd ranges, alone and from many goroutines.
func testBytes(t *testing.T, serve serveBlocks) {
	s := newWithheld()
	close(s.released)
	read := serve(t, t.Context(), s)
	for _, r := range []struct {
		off int64
		n   int
	}{{0, 1}, {4095, 4098}, {withheldSize - 1, 1}, {withheldFrom - 5, 70 << 10}, {0, withheldSize}} {
		s.check(t, read, r.off, r.n)
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				s.check(t, read, int64((i*99991+w*777777)%(withheldSize-9000)), 9000)
			}
		})
	}
	wg.Wait()
}

func (w *withheldImage) begin(read ReadBlocks) (p []byte, done chan error) {
	p, done = make([]byte, 1000), make(chan error, 1)
	go func() { done <- read(p, withheldFrom+500) }()
	<-w.asked
	return p, done
}

// testWaits has one read wait while others go on, and then get its bytes.
func testWaits(t *testing.T, serve serveBlocks) {
	s := newWithheld()
	read := serve(t, t.Context(), s)
	p, done := s.begin(read)
	s.check(t, read, 100, 1000)
	s.check(t, read, 3<<20, 1000)
	select {
	case err := <-done:
		t.Fatalf("a read of what is not here ended: %v", err)
	case <-time.After(50 * time.Millisecond): // one that gives up later is seen by what it has read
	}
	close(s.released)
	if err := <-done; err != nil || !bytes.Equal(p, s.expect(withheldFrom+500, 1000)) {
		t.Errorf("what came at last: %v", err)
	}
}

// testSourceFails has the source fail: nothing is made up, and a later read succeeds. The range was
// not read before, so no cache answers.
func testSourceFails(t *testing.T, serve serveBlocks) {
	s := newWithheld()
	close(s.released)
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
	s := newWithheld()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := serve(t, ctx, s)
	_, done := s.begin(read)
	cancel()
	if err := <-done; err == nil {
		t.Error("what never came was read")
	}
}
