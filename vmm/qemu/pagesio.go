package qemu

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// pageSource is a space that pages are read from: a memory file, a disk, another process. Several
// goroutines call it at once, for different regions.
type pageSource interface {
	// readPages fills dst with the pages of the region at offset that have their bits set, packed.
	// dst has exactly their size.
	readPages(dst []byte, offset int64, pages *bitmap) error
}

// pageSink is a space that pages are written to, called as a pageSource is. src stays the caller's.
type pageSink interface {
	writePages(src []byte, offset int64, pages *bitmap) error
}

// regionBuffers are shared by all transfers of this process: a restore needs one MiB for each CPU,
// for as long as it lasts.
var regionBuffers = sync.Pool{New: func() any { return new([regionSize]byte) }}

type candidate struct {
	offset int64
	pages  bitmap
}

// writePages stores the candidates' pages in f, which is empty, and returns their index. It stores
// a page of zeros only if keepZero is true for it: the page is not zero in the template, which
// would otherwise shine through in a restored machine. Regions are stored in the order in which
// they are ready, so the same pages may give different files.
func writePages(ctx context.Context, f *os.File, space int64, from []candidate, src pageSource, keepZero func(off int64) bool) (*pageIndex, error) {
	var (
		length atomic.Int64
		mu     sync.Mutex
		x      = &pageIndex{Space: space}
	)
	err := eachRegion(ctx, len(from), func(i int, buf []byte) error {
		r := region{Offset: from[i].offset, Pages: from[i].pages}
		data := buf[:r.length()]
		if err := src.readPages(data, r.Offset, &r.Pages); err != nil {
			return err
		}
		data = dropZeroPages(data, &r, keepZero)
		if len(data) == 0 {
			return nil
		}
		r.Digest = sha256.Sum256(data)
		r.Data = length.Add(int64(len(data))) - int64(len(data))
		if _, err := f.WriteAt(data, r.Data); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		x.Regions = append(x.Regions, r)
		return nil
	})
	sort.Slice(x.Regions, func(i, j int) bool { return x.Regions[i].Offset < x.Regions[j].Offset })
	x.Length = length.Load()
	return x, err
}

// dropZeroPages compacts data in place, and clears the bits of what it drops.
func dropZeroPages(data []byte, r *region, keepZero func(off int64) bool) []byte {
	kept, pages := data[:0], bitmap{}
	for _, run := range r.Pages.runs() {
		for p := run.off; p < run.off+run.len; p += pageSize {
			page := data[:pageSize]
			data = data[pageSize:]
			if isZero(page) && !keepZero(r.Offset+p) {
				continue
			}
			kept = append(kept, page...)
			pages.set(int(p / pageSize))
		}
	}
	r.Pages = pages
	return kept
}

var errPages = errors.New("pages do not match their digest")

// readPages verifies every region of a set and passes it to sink, which sees no region that does
// not match, but may have seen others before. An error that wraps errPages means that the files are
// damaged; any other is one of reading or of the sink.
func readPages(ctx context.Context, f io.ReaderAt, x *pageIndex, sink pageSink) error {
	return eachRegion(ctx, len(x.Regions), func(i int, buf []byte) error {
		r := &x.Regions[i]
		data := buf[:r.length()]
		if _, err := f.ReadAt(data, r.Data); err == io.EOF {
			return fmt.Errorf("at %#x: %w: the file is too short", r.Offset, errPages)
		} else if err != nil {
			return err
		}
		if sha256.Sum256(data) != r.Digest {
			return fmt.Errorf("at %#x: %w", r.Offset, errPages)
		}
		return sink.writePages(data, r.Offset, &r.Pages)
	})
}

// eachRegion calls work for 0..n-1 on all CPUs, each time with a buffer that work must not keep.
// After the first error, which it returns, no further region begins.
func eachRegion(ctx context.Context, n int, work func(i int, buf []byte) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), n) {
		group.Go(func() error {
			buf := regionBuffers.Get().(*[regionSize]byte)
			defer regionBuffers.Put(buf)
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return ctx.Err()
				}
				if err := work(i, buf[:]); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// fileSpace is a file of pages at their offsets. What is never written stays a hole.
type fileSpace struct{ f *os.File }

// readPages implements pageSource; holes read as zeros.
func (fs fileSpace) readPages(dst []byte, offset int64, pages *bitmap) error {
	for _, run := range pages.runs() {
		if _, err := fs.f.ReadAt(dst[:run.len], offset+run.off); err != nil {
			return err
		}
		dst = dst[run.len:]
	}
	return nil
}

func (fs fileSpace) writePages(src []byte, offset int64, pages *bitmap) error {
	for _, run := range pages.runs() {
		if _, err := fs.f.WriteAt(src[:run.len], offset+run.off); err != nil {
			return err
		}
		src = src[run.len:]
	}
	return nil
}

// fileCandidates are a sparse file's pages outside of holes. They may be zeros.
func fileCandidates(f *os.File, size int64) ([]candidate, error) {
	var c candidates
	for off := int64(0); ; {
		e, err := nextExtent(f, off, size)
		if err == io.EOF {
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		c.add(e.off, e.off+e.len)
		off = e.off + e.len
	}
}

type candidates []candidate

// add takes every page that [from, to) touches. Ranges ascend; two may touch one page.
func (c *candidates) add(from, to int64) {
	for p := from &^ (pageSize - 1); p < to; p += pageSize {
		base := p &^ (regionSize - 1)
		if n := len(*c); n == 0 || (*c)[n-1].offset != base {
			*c = append(*c, candidate{offset: base})
		}
		(*c)[len(*c)-1].pages.set(int(p-base) / pageSize)
	}
}

var zeroPage [pageSize]byte

func isZero(page []byte) bool { return string(page) == string(zeroPage[:]) }
