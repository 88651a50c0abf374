// Package partial reads an image's file while another process completes it. It asks for blocks that
// are not there yet, and remembers which are; it neither gets bytes nor checks them.
package partial

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
)

// Image says where such a file is.
type Image struct {
	Path  string `json:"path"`
	Size  int64  `json:"size"`  // bytes of the whole image
	Block int64  `json:"block"` // bytes of a block; the last may be shorter
}

// Need returns when a block may be read. It waits as long as that takes and fails when ctx ends.
type Need func(ctx context.Context, block int) (agentbox.Blocks, error)

// firstRetry is the time between the first two tries. Each is twice as long as the one before.
const firstRetry = 100 * time.Millisecond

// Retry does what gets bytes of an image until it succeeds, ctx ends, or failed, which is told why
// it did not, says that it never will. longest is the most between two tries.
func Retry(ctx context.Context, longest time.Duration, do func() error, failed func(error) (again bool)) error {
	for wait := firstRetry; ; wait = min(2*wait, longest) {
		err := do()
		if err == nil || ctx.Err() != nil || !failed(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// File implements vmm.Blocks.
type File struct {
	about Image
	need  Need

	mu      sync.RWMutex // held for reading while f is read
	f       *os.File
	have    []byte
	waiting atomic.Int64 // reads under way that wait
	since   atomic.Int64 // Unix nanoseconds from when on some read always waited
}

// Open opens the file. need is called from many goroutines, for different blocks or the same.
func Open(about Image, need Need) (*File, error) {
	if about.Size < 0 || about.Block <= 0 {
		return nil, fmt.Errorf("an image of %d bytes in blocks of %d", about.Size, about.Block)
	}
	f, err := os.Open(about.Path)
	if err != nil {
		return nil, err
	}
	return &File{about: about, f: f, need: need}, nil
}

// Size implements vmm.Blocks.
func (f *File) Size() int64 { return f.about.Size }

// ReadBlocks implements vmm.Blocks.
func (f *File) ReadBlocks(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off+int64(len(p)) > f.about.Size {
		return fmt.Errorf("a read of %d bytes at %d of an image of %d", len(p), off, f.about.Size)
	}
	if len(p) == 0 {
		return nil
	}
	for block := off / f.about.Block; block*f.about.Block < off+int64(len(p)); block++ {
		if err := f.await(ctx, int(block)); err != nil {
			return err
		}
	}
	return f.read(ctx, p, off)
}

// read reads blocks that were there a moment ago.
func (f *File) read(ctx context.Context, p []byte, off int64) error {
	f.mu.RLock()
	for block := off / f.about.Block; block*f.about.Block < off+int64(len(p)); block++ {
		if !f.has(int(block)) { // the file was replaced meanwhile
			f.mu.RUnlock()
			return f.ReadBlocks(ctx, p, off)
		}
	}
	defer f.mu.RUnlock()
	n, err := f.f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		err = fmt.Errorf("%s is shorter than its image", f.f.Name())
	}
	return err
}

func (f *File) await(ctx context.Context, block int) error {
	if f.here(block) {
		return nil
	}
	if f.waiting.Add(1) == 1 {
		f.since.Store(time.Now().UnixNano())
	}
	defer f.waiting.Add(-1)
	answer, err := f.need(ctx, block)
	if err != nil {
		return err
	}
	if err := f.take(answer); err != nil {
		return err
	}
	if !f.here(block) {
		return fmt.Errorf("block %d of the image was promised and is not there", block)
	}
	return nil
}

// take believes an answer about the file that is open, and opens the one that it is about when that
// is another: who completes the image may have lost the first one and begun again. What was known
// of that one says nothing of this.
func (f *File) take(a agentbox.Blocks) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ours, err := f.f.Stat()
	if err != nil {
		return err
	}
	if theirs, err := os.Stat(a.Path); err == nil && os.SameFile(ours, theirs) {
		f.have = union(f.have, a.Have)
		return nil
	}
	other, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	err = f.f.Close()
	f.f, f.have = other, a.Have
	return err
}

func (f *File) here(block int) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.has(block)
}

// has is for callers who hold mu.
func (f *File) has(block int) bool {
	return block/8 < len(f.have) && f.have[block/8]&(1<<(block%8)) != 0
}

// union keeps what was there: answers may overtake each other.
func union(a, b []byte) []byte {
	out := make([]byte, max(len(a), len(b)))
	copy(out, a)
	for i := range b {
		out[i] |= b[i]
	}
	return out
}

// Waiting tells for how long some read has been waiting, 0 for not at all.
func (f *File) Waiting() time.Duration {
	if f.waiting.Load() == 0 {
		return 0
	}
	return time.Since(time.Unix(0, f.since.Load()))
}

// Close closes the file. Nothing may be read any more.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}
