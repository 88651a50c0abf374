// Package partial reads an image's file while another process completes it. It asks for blocks that
// are not there yet, and remembers which are; it neither gets bytes nor checks them.
//
// The daemon completes images: host/images asks other members and remotes for blocks, checks each
// against its manifest and writes it into the file at its place. A supervisor has the same file
// open and serves it to its machine, by NBD or FUSE (vmm/nbd, vmm/fusefile), through a File.
// Between the two is only the question "give me this block" (Need), whose answer says which blocks
// the file has by now; so a block that is here is read without asking anybody, and the daemon may
// be replaced by another while machines run.
//
// Invariants: a byte is read only after its block was said to be there, in this very file; and a
// block that was once there stays there, so answers can be united in any order.
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
	// Absolute, of a file on this host that may still have holes.
	Path  string `json:"path"`
	Size  int64  `json:"size"`  // bytes of the whole image
	Block int64  `json:"block"` // bytes of a block; the last may be shorter
}

// Need returns when a block may be read. It waits as long as that takes and fails when ctx ends.
// The answer names the file that the block is in, by its path, and every block that this file is
// known to have, as bits, the lowest of each byte first.
type Need func(ctx context.Context, block int) (agentbox.Blocks, error)

// firstRetry is the time between the first two tries. Each is twice as long as the one before.
const firstRetry = 100 * time.Millisecond

// Retry does what gets bytes of an image until it succeeds, ctx ends, or failed, which is told why
// it did not, says that it never will. longest is the most between two tries. longest is at least
// firstRetry. The error is nil, what do failed with when failed gave up, or that of ctx: it is
// never a mere timeout, for a guest whose disk fails does not recover, and one whose disk is slow
// does.
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

// File implements vmm.Blocks. Its methods may be called from any goroutine, Close only when no
// others are under way or begin later.
type File struct {
	about Image
	need  Need

	mu sync.RWMutex // held for reading while f is read
	// The file that have is about. take replaces both, so they are read together under mu.
	f *os.File
	// A bit for each block that is known to be in f. It may be shorter than the image.
	have    []byte
	waiting atomic.Int64 // reads under way that wait
	since   atomic.Int64 // Unix nanoseconds from when on some read always waited
}

// Open opens the file that about names, which need not have all its bytes yet, or any. need is
// called from many goroutines, for different blocks or the same. Sizes that make no image are an
// error.
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

// ReadBlocks implements vmm.Blocks. Blocks that are missing are awaited one after the other: the
// one who completes the image reads ahead by itself when it is asked for a block.
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

// read reads blocks that were there a moment ago, and begins anew where the file was replaced
// meanwhile: the new one may lack some of them.
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

// await returns when a block is here. It counts as waiting from before it asks, because what shows
// as a machine that stands still (Waiting) is mostly the time until an answer.
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

// take believes an answer about the file that is open, and opens the file that it is about when
// that is another: the daemon may have lost the first one and begun again. What was known of the
// old file says nothing of the new one. Files are compared by their inode, since a new file has the
// old one's path.
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

// here tells whether a block may be read. A true answer is about the file of that moment only.
func (f *File) here(block int) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.has(block)
}

// has is for callers who hold mu.
func (f *File) has(block int) bool {
	return block/8 < len(f.have) && f.have[block/8]&(1<<(block%8)) != 0
}

// union has the bits of both: answers may overtake each other, and an older one must not make
// blocks disappear. It returns a slice of its own, since readers may still hold the old one.
func union(a, b []byte) []byte {
	out := make([]byte, max(len(a), len(b)))
	copy(out, a)
	for i := range b {
		out[i] |= b[i]
	}
	return out
}

// Waiting tells for how long some read has been waiting without a break, 0 for not at all. It is
// for showing that a machine stands still, and no single read's time: reads that take turns count
// on.
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
