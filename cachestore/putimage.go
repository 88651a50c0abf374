package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// PutImage stores a disk image of size bytes block by block. It does not read holes of a file. The
// result is on disk. Until it is named or pinned, it stays for the grace period. r must have size
// bytes and is read by several goroutines at once. Blocks that are already in the store are not
// stored again, so the image's own file may have holes where the image has data: File completes it.
// Errors are those of PutStream.
func (s *Store) PutImage(ctx context.Context, r io.ReaderAt, size int64, info blob.Info) (PutResult, error) {
	if size < 0 || !info.Kind.Valid() {
		return PutResult{}, agentbox.Errorf(agentbox.Invalid, "an image of %d bytes and kind %q", size, info.Kind)
	}
	return s.newImageWriter(r, size, info).run(ctx)
}

// PutImageFile is PutImage of a plain file that nobody writes to any more. Where the file system
// permits, the store's file becomes a hard link to it, so that nothing is copied and the disk holds
// it once. The store then makes no holes in it, and changes it only to repair damage. rate limits
// the bytes read per second; 0 is no limit.
//
// From now on the file must not change under any of its names, because the store claims what it
// read. If no link can be made (another file system, or one without links), the file is copied, and
// rate is ignored.
func (s *Store) PutImageFile(ctx context.Context, path string, info blob.Info, rate int64) (PutResult, error) {
	f, err := os.Open(path)
	if err != nil {
		return PutResult{}, s.hostError(err)
	}
	defer f.Close()
	st, err := disk.NewFile(f).Stat()
	if err != nil {
		return PutResult{}, s.hostError(err)
	}
	id := s.nextID.Add(1)
	// A copy works whatever the reason.
	if err := s.fs.Link(path, s.imageFiles.tempName(id)); err != nil {
		return s.PutImage(ctx, f, st.Size, info)
	}
	in := s.newImageWriter(f, st.Size, info)
	in.linked, in.tempName, in.pace = true, s.imageFiles.tempName(id), rateLimiter{rate: rate, start: time.Now()}
	in.file = &blockFile{File: noClose{disk.NewFile(f)}, id: id, release: s.guard.holdImage(id)}
	in.w.images[id] = in.file
	out, err := in.run(ctx)
	if err == nil && out.Written < st.Allocated {
		// Blocks that are also elsewhere are charged to no kind, but occupy space in this file all
		// the same.
		s.space.add("", st.Allocated-out.Written)
	}
	return out, err
}

// noClose is a file that its owner closes: PutImageFile reads and syncs by the same descriptor.
type noClose struct{ disk.File }

func (noClose) Close() error { return nil }

// imageWriter is an image that is being stored. The mutex of workers guards ours, shared and file.
// Only the worker that has a block writes its entry of m.Chunks.
type imageWriter struct {
	s *Store
	// w claims at the end what was written.
	w *writer
	r io.ReaderAt
	// m is the manifest; workers fill in its chunks.
	m       blob.Manifest
	workers *workers
	// ours are the chunks that a worker is storing, so that two blocks with the same bytes are
	// written once.
	storing map[agentbox.Digest]bool
	// shared is set when some chunks are elsewhere, in another file or in another block of this
	// one. Then the file is not whole.
	shared bool
	// file is the image's own file, nil until there is a new block. An image whose blocks are all
	// in the store gets a file only when a box attaches it.
	file *blockFile
	// linked is set when file is a hard link to the file that is read, and so is complete.
	linked bool
	// fresh is the path of file until commit names it after its manifest; "" from then on.
	tempName string
	pace     rateLimiter
}

// newImageWriter starts storing an image. run must follow.
func (s *Store) newImageWriter(r io.ReaderAt, size int64, info blob.Info) *imageWriter {
	m := blob.Manifest{Info: info, Size: size, Blocks: true, Chunks: make([]blob.Chunk, (size+blob.BlockSize-1)/blob.BlockSize)}
	return &imageWriter{s: s, w: s.newWriter(info.Kind), r: r, m: m, storing: map[agentbox.Digest]bool{}}
}

// run stores the image. It always ends the writer, even after an error.
func (in *imageWriter) run(ctx context.Context) (out PutResult, err error) {
	if err = in.blocks(ctx); err == nil {
		out, err = in.commit(ctx)
	}
	return out, errors.Join(err, in.close())
}

// blocks goes through the image, skipping holes. One goroutine finds the data and limits the rate;
// workers read, hash and write. It stops at the first error. All workers have ended when it
// returns.
func (in *imageWriter) blocks(ctx context.Context) error {
	in.workers = newWorkers(ctx)
	next := dataFinder(in.r)
	err := error(nil)
	for i := 0; i < len(in.m.Chunks) && err == nil; i++ {
		in.m.Chunks[i].Size = int(min(blob.BlockSize, in.m.Size-int64(i)*blob.BlockSize))
		off := int64(i) * blob.BlockSize
		if data, findErr := next(off); findErr != nil {
			err = findErr
		} else if data >= off+blob.BlockSize {
			continue
		}
		if err == nil {
			err = in.pace.wait(ctx, int64(in.m.Chunks[i].Size))
		}
		if err == nil {
			err = in.workers.do(func(ctx context.Context) error { return in.block(ctx, i) })
		}
	}
	return in.workers.wait(err)
}

// dataFinder returns a func that returns the offset of the first data at or after off. If only
// holes follow, this is an offset far beyond every image. Offsets must not decrease. For a reader
// that cannot report holes, everything is data.
func dataFinder(r io.ReaderAt) func(off int64) (int64, error) {
	f, ok := r.(interface {
		NextData(off int64) (start, end int64, err error)
	})
	if file, isFile := r.(*os.File); isFile {
		f, ok = disk.NewFile(file).(interface {
			NextData(off int64) (start, end int64, err error)
		}), true
	}
	if !ok {
		return func(off int64) (int64, error) { return off, nil }
	}
	var start, end int64
	return func(off int64) (int64, error) {
		if off < end {
			return max(off, start), nil
		}
		var err error
		start, end, err = f.NextData(off)
		if errors.Is(err, io.EOF) {
			start, end, err = 1<<62, 1<<62, nil
		}
		return start, err
	}
}

// block stores chunk i if it is new, and writes its digest into the manifest. A block of zeros in
// the middle of data keeps the zero digest.
func (in *imageWriter) block(ctx context.Context, i int) error {
	buf := in.workers.buffer()[:in.m.Chunks[i].Size]
	defer in.workers.recycle(buf)
	off := int64(i) * blob.BlockSize
	if n, err := in.r.ReadAt(buf, off); n < len(buf) {
		return fmt.Errorf("reading an image at %d: %w", off, err)
	}
	if blob.IsZero(buf) {
		return nil
	}
	d, have, err := in.w.identify(buf)
	if err != nil {
		return err
	}
	in.m.Chunks[i].Digest = d
	taken := false
	in.workers.locked(func() {
		taken = in.storing[d]
		in.storing[d] = true
		in.shared = in.shared || taken
	})
	if taken {
		return nil
	}
	if have {
		in.workers.locked(func() { in.shared = true })
		return nil
	}
	// Nothing to write: the bytes are already in place. commit syncs the file before they are
	// claimed.
	if in.linked {
		n := uint32(len(buf))
		in.w.addPending(d, index.Location{Image: true, File: in.file.id, Off: off, Stored: n, Size: n, Seen: in.s.claimTime()}, int64(n))
		return nil
	}
	f, err := in.open()
	if err != nil {
		return err
	}
	return in.w.putBlock(ctx, f, d, buf, off)
}

// open opens the image's file, or makes it for the first new block. For concurrent use.
func (in *imageWriter) open() (*blockFile, error) {
	in.workers.mu.Lock()
	defer in.workers.mu.Unlock()
	if in.file != nil {
		return in.file, nil
	}
	f, id, err := in.s.imageFiles.create(in.m.Size)
	if err != nil {
		return nil, err
	}
	in.tempName = in.s.imageFiles.tempName(id)
	in.file = &blockFile{File: f, id: id, release: in.s.guard.holdImage(id)}
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	in.w.images[id] = in.file
	return in.file, nil
}

// commit names the image file and stores the manifest. The order matters: metadata must not refer
// to a file that cannot be opened.
func (in *imageWriter) commit(ctx context.Context) (PutResult, error) {
	c := commitment{}
	if in.file != nil {
		// Sync before naming, so that a reader that finds the file by its name finds it complete.
		if err := in.file.Sync(); err != nil {
			return PutResult{}, in.s.hostError(err)
		}
		in.file.dirty = false
		if err := in.s.imageFiles.name(in.file.id, blob.Sum(in.m.Encode())); err != nil {
			return PutResult{}, err
		}
		in.tempName = ""
		c = commitment{file: in.file.id, whole: in.linked || !in.shared}
	}
	return in.s.commit(ctx, in.w, in.m, c)
}

// close ends the writer, and removes the file if the image was not committed. None of its blocks
// were claimed then: the writer claims blocks of an image in flush, which only commit calls here.
func (in *imageWriter) close() error {
	written := in.w.charged // all of it in the file, as no manifest was stored
	err := in.w.close()
	if in.tempName != "" {
		err = errors.Join(err, in.s.fs.Remove(in.tempName))
		in.s.space.add("", -written)
	}
	return err
}
