// Package lazyimage reads the file of an image while another process completes it. It asks for blocks
// that are missing and remembers which ones are there. It neither fetches blocks nor checks them.
//
// The daemon completes images: host/images asks other members and remotes for blocks, checks each
// against its manifest and writes it to its place in the file. A supervisor has the same file open
// and serves it to its machine through a File, by NBD or FUSE (vmm/nbd, vmm/fusefile). Between the
// two there is only the request for a block (Need), whose answer says which blocks the file has by
// now. So a block that is there is read without asking anybody, and another daemon can take over
// while machines run.
//
// Invariants: a byte is read only after somebody said that its block is in this very file. A block
// that is there stays there, so answers can be merged in any order.
package lazyimage

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"agentbox/agentbox"
)

// Image describes a file that may still lack blocks.
type Image struct {
	Path  string `json:"path"`  // absolute
	Size  int64  `json:"size"`  // bytes of the whole image
	Block int64  `json:"block"` // bytes of a block; the last may be shorter
}

// Need returns when a block can be read. It waits as long as that takes, and fails when ctx ends.
// The answer has the path of the file with the block, and all blocks that this file is known to
// have, as bits, the lowest of each byte first.
type Need func(ctx context.Context, block int) (agentbox.Blocks, error)

// File implements vmm.Blocks. Its methods may be called from any goroutine. Close must be the last.
type File struct {
	about Image
	need  Need

	mu sync.RWMutex // held for reading while f is read
	f  *os.File     // take replaces it together with have
	// A bit for each block that is known to be in f. It may be shorter than the image.
	have []byte

	waits   sync.Mutex // guards what follows
	waiting int        // reads under way that wait
	since   time.Time  // from when on some read always waited
}

// Open opens a file, which need not have any of its bytes yet. need is called from many goroutines,
// also for the same block. Impossible sizes are an error.
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

// ReadBlocks implements vmm.Blocks. It waits for missing blocks one after another: the daemon
// prefetches what follows a block.
func (f *File) ReadBlocks(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > f.about.Size-int64(len(p)) {
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

// read reads blocks that were there a moment ago. If the file was replaced meanwhile, it starts
// over: the new file may lack some of them.
func (f *File) read(ctx context.Context, p []byte, off int64) error {
	f.mu.RLock()
	for block := off / f.about.Block; block*f.about.Block < off+int64(len(p)); block++ {
		if !f.has(int(block)) {
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

// await returns when a block is here. The read counts as waiting (Waiting) until the answer comes.
func (f *File) await(ctx context.Context, block int) error {
	if f.readable(block) {
		return nil
	}
	f.wait(1)
	defer f.wait(-1)
	answer, err := f.need(ctx, block)
	if err != nil {
		return err
	}
	if err := f.merge(answer); err != nil {
		return err
	}
	if !f.readable(block) {
		return fmt.Errorf("block %d of the image was reported as present and is missing", block)
	}
	return nil
}

// wait counts reads that wait: one more or one less.
func (f *File) wait(n int) {
	f.waits.Lock()
	defer f.waits.Unlock()
	if f.waiting == 0 {
		f.since = time.Now()
	}
	f.waiting += n
}

// merge merges an answer about the open file into have. If the answer is about another file, take
// opens that one and forgets the old: the daemon may have lost the first file and started over. It
// compares files by inode, since the new file has the path of the old.
func (f *File) merge(a agentbox.Blocks) error {
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

// readable tells whether a block can be read. The answer holds for the file of this moment only.
func (f *File) readable(block int) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.has(block)
}

// has is here for callers that hold mu.
func (f *File) has(block int) bool {
	return block/8 < len(f.have) && f.have[block/8]&(1<<(block%8)) != 0
}

// union returns the bits of both in a new slice. Answers can overtake each other, and an older one
// must not make blocks disappear.
func union(a, b []byte) []byte {
	out := make([]byte, max(len(a), len(b)))
	copy(out, a)
	for i := range b {
		out[i] |= b[i]
	}
	return out
}

// Waiting returns for how long at least one read has been waiting without a break, 0 if none is. It
// shows that a machine stands still. It is not the time of a single read.
func (f *File) Waiting() time.Duration {
	f.waits.Lock()
	defer f.waits.Unlock()
	if f.waiting == 0 {
		return 0
	}
	return time.Since(f.since)
}

// Close closes the file. Nothing can be read any more.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}
