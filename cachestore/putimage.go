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

// PutImage stores a disk image of size bytes block by block. Holes of a file are not read. What it
// returns is on disk. Until it is named or pinned it stays for the grace period. r is read by
// several goroutines at once and must have size bytes. Blocks that are here are not stored again,
// so the image's own file may have holes where it has data: File completes it. Errors are those of
// PutStream.
func (s *Store) PutImage(ctx context.Context, r io.ReaderAt, size int64, info blob.Info) (Stored, error) {
	if size < 0 || !info.Kind.Valid() {
		return Stored{}, agentbox.Errorf(agentbox.Invalid, "an image of %d bytes and kind %q", size, info.Kind)
	}
	return s.newIntake(r, size, info).run(ctx)
}

// PutImageFile is PutImage of a plain file that nobody writes to any more. Where the file system
// can, the store's file becomes another name of it, so that nothing is copied and the disk holds it
// once; the store then makes no holes in it, and changes it only to mend what is damaged. rate
// bounds the bytes that are read in a second; 0 is no bound.
//
// path must not change from now on, by any of its names: the file is claimed as it was read. Where
// no link can be made (another file system, or one without links) it is copied, as fast as it goes:
// rate is not observed then.
func (s *Store) PutImageFile(ctx context.Context, path string, info blob.Info, rate int64) (Stored, error) {
	f, err := os.Open(path)
	if err != nil {
		return Stored{}, s.hostError(err)
	}
	defer f.Close()
	st, err := disk.Of(f).Stat()
	if err != nil {
		return Stored{}, s.hostError(err)
	}
	id := s.nextID.Add(1)
	// Whatever the reason, a copy works as well.
	if err := s.fs.Link(path, s.imageFiles.fresh(id)); err != nil {
		return s.PutImage(ctx, f, st.Size, info)
	}
	in := s.newIntake(f, st.Size, info)
	in.linked, in.fresh, in.pace = true, s.imageFiles.fresh(id), pace{rate: rate, start: time.Now()}
	in.file = &blockFile{File: unowned{disk.Of(f)}, id: id, release: s.guard.write(id)}
	in.w.images[id] = in.file
	out, err := in.run(ctx)
	if err == nil && out.Written < st.Allocated {
		// Blocks that others have too are charged to nobody, and lie here all the same.
		s.space.add("", st.Allocated-out.Written)
	}
	return out, err
}

// unowned is a file that somebody else closes: PutImageFile reads and syncs by the same descriptor.
type unowned struct{ disk.File }

func (unowned) Close() error { return nil }

// intake is an image on its way in. ours, shared and file are guarded by the mutex of workers; each
// entry of m.Chunks is written by the one worker that has the block.
type intake struct {
	s *Store
	// w claims what was written, at the end.
	w *writer
	r io.ReaderAt
	// m is the manifest as it becomes known, its chunks by their places.
	m       blob.Manifest
	workers *workers
	// ours are the chunks that some worker has taken on: two blocks with the same bytes are written
	// once.
	ours map[agentbox.Digest]bool
	// shared says that some chunks lie elsewhere, in another file or in another block of this one.
	// The file is not whole then.
	shared bool
	// file is the image's own, nil as long as nothing is new: an image whose blocks are all here
	// gets none until somebody wants to attach it.
	file *blockFile
	// linked says that file has every byte already: it is another name of what is read.
	linked bool
	// fresh is the name of file until the manifest is known by which it gets its own; "" from then
	// on.
	fresh string
	pace  pace
}

// newIntake begins to take in an image, which run ends.
func (s *Store) newIntake(r io.ReaderAt, size int64, info blob.Info) *intake {
	m := blob.Manifest{Info: info, Size: size, Blocks: true, Chunks: make([]blob.Chunk, (size+blob.BlockSize-1)/blob.BlockSize)}
	return &intake{s: s, w: s.newWriter(info.Kind), r: r, m: m, ours: map[agentbox.Digest]bool{}}
}

// run stores all of it, and ends the writing, whatever happens.
func (in *intake) run(ctx context.Context) (out Stored, err error) {
	if err = in.blocks(ctx); err == nil {
		out, err = in.commit(ctx)
	}
	return out, errors.Join(err, in.close())
}

// blocks goes through the image, skipping holes: one goroutine finds the data and keeps the pace,
// workers read, hash and write. The first error ends it; all workers have returned when it does.
func (in *intake) blocks(ctx context.Context) error {
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

// dataFinder returns a func that tells where the next data is, at or after a place: at an offset
// far beyond every image when only holes follow. Places must not go back. For a reader that knows
// of no holes everything is data.
func dataFinder(r io.ReaderAt) func(off int64) (int64, error) {
	f, ok := r.(interface {
		NextData(off int64) (start, end int64, err error)
	})
	if file, isFile := r.(*os.File); isFile {
		f, ok = disk.Of(file).(interface {
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
func (in *intake) block(ctx context.Context, i int) error {
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
		taken = in.ours[d]
		in.ours[d] = true
		in.shared = in.shared || taken
	})
	if taken {
		return nil
	}
	if have {
		in.workers.locked(func() { in.shared = true })
		return nil
	}
	// Nothing to write: the bytes are in their place already. They are claimed by commit, after a
	// sync.
	if in.linked {
		n := uint32(len(buf))
		in.w.account(d, index.Location{Image: true, File: in.file.id, Off: off, Stored: n, Size: n, Seen: in.s.seen()}, int64(n))
		return nil
	}
	f, err := in.open()
	if err != nil {
		return err
	}
	return in.w.putBlock(ctx, f, d, buf, off)
}

// open makes the image's file when the first new block comes, and gives that one from then on.
// Several workers may call it at once.
func (in *intake) open() (*blockFile, error) {
	in.workers.mu.Lock()
	defer in.workers.mu.Unlock()
	if in.file != nil {
		return in.file, nil
	}
	f, id, err := in.s.imageFiles.create(in.m.Size)
	if err != nil {
		return nil, err
	}
	in.fresh = in.s.imageFiles.fresh(id)
	in.file = &blockFile{File: f, id: id, release: in.s.guard.write(id)}
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	in.w.images[id] = in.file
	return in.file, nil
}

// commit gives the image file its name and stores the manifest. In this order: a manifest that is
// known must not name a file that nobody can open.
func (in *intake) commit(ctx context.Context) (Stored, error) {
	c := commitment{}
	if in.file != nil {
		// The file is synced before it is named, so that a reader that finds it by its name finds
		// it complete.
		if err := in.file.Sync(); err != nil {
			return Stored{}, in.s.hostError(err)
		}
		in.file.dirty = false
		if err := in.s.imageFiles.name(in.file.id, blob.Sum(in.m.Encode())); err != nil {
			return Stored{}, err
		}
		in.fresh = ""
		c = commitment{file: in.file.id, whole: in.linked || !in.shared}
	}
	return in.s.commit(ctx, in.w, in.m, c)
}

// close ends the writing, and removes the file of an image that did not come to be. None of its
// blocks was claimed: a writer claims blocks of an image with flush, which only commit calls here.
func (in *intake) close() error {
	written := in.w.charged // all of it in the file, as no manifest has come
	err := in.w.close()
	if in.fresh != "" {
		err = errors.Join(err, in.s.fs.Remove(in.fresh))
		in.s.space.add("", -written)
	}
	return err
}
