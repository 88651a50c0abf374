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
// returns is on disk. Until it is named or pinned it stays for the grace period.
func (s *Store) PutImage(ctx context.Context, r io.ReaderAt, size int64, info blob.Info) (Stored, error) {
	if size < 0 || !info.Kind.Valid() {
		return Stored{}, agentbox.Errorf(agentbox.Invalid, "an image of %d bytes and kind %q", size, info.Kind)
	}
	in := &intake{s: s, w: s.newWriter(info.Kind), r: r, ours: map[agentbox.Digest]bool{}}
	in.m = blob.Manifest{Info: info, Size: size, Blocks: true, Chunks: make([]blob.Chunk, (size+blob.BlockSize-1)/blob.BlockSize)}
	err := in.blocks(ctx)
	var out Stored
	if err == nil {
		out, err = in.commit(ctx)
	}
	return out, errors.Join(err, in.close())
}

// PutImageFile is PutImage of a plain file that nobody writes to any more. Where the file system
// can, the store's file becomes another name of it, so that nothing is copied and the disk holds it
// once; the store then makes no holes in it, and changes it only to mend what is damaged. rate
// bounds the bytes that are read in a second; 0 is no bound.
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
	if err := s.fs.Link(path, s.freshImage(id)); err != nil {
		return s.PutImage(ctx, f, st.Size, info)
	}
	in := &intake{s: s, w: s.newWriter(info.Kind), r: f, ours: map[agentbox.Digest]bool{}, linked: true, fresh: s.freshImage(id), pace: pace{rate: rate, start: time.Now()}}
	in.m = blob.Manifest{Info: info, Size: st.Size, Blocks: true, Chunks: make([]blob.Chunk, (st.Size+blob.BlockSize-1)/blob.BlockSize)}
	in.file = &blockFile{File: unowned{disk.Of(f)}, id: id, release: s.guard.write(id)}
	in.w.images[id] = in.file
	err = in.blocks(ctx)
	var out Stored
	if err == nil {
		out, err = in.commit(ctx)
	}
	if err == nil && in.w.charged < st.Allocated {
		s.space.add("", st.Allocated-in.w.charged) // blocks that others have too lie here all the same
	}
	return out, errors.Join(err, in.close())
}

// unowned is a file that somebody else closes.
type unowned struct{ disk.File }

func (unowned) Close() error { return nil }

// intake is an image on its way in.
type intake struct {
	s       *Store
	w       *writer
	r       io.ReaderAt
	m       blob.Manifest
	workers *workers
	ours    map[agentbox.Digest]bool // chunks that somebody of the workers has taken on
	shared  bool                     // some chunks lie elsewhere
	file    *blockFile               // nil as long as nothing is new
	linked  bool                     // file has every byte already: it is another name of what is read
	fresh   string                   // its name until the manifest is known
	pace    pace
}

// blocks goes through the image, skipping holes.
func (in *intake) blocks(ctx context.Context) error {
	in.workers = newWorkers(ctx, in.s.cfg.Workers)
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
	if waited := in.workers.wait(); waited != nil {
		err = waited
	}
	return err
}

// dataFinder gives a func that tells where the next data is, at or after a place. Places must not
// go back.
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

// block stores chunk i if it is new.
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
	if in.linked {
		n := uint32(len(buf))
		in.w.wrote(d, index.Location{Image: true, File: in.file.id, Off: off, Stored: n, Size: n, Seen: in.s.seen()}, int64(n))
		return nil
	}
	f, err := in.open()
	if err != nil {
		return err
	}
	return in.w.putBlock(ctx, f, d, buf, off)
}

// open makes the image's file when the first new block comes.
func (in *intake) open() (*blockFile, error) {
	in.workers.mu.Lock()
	defer in.workers.mu.Unlock()
	if in.file != nil {
		return in.file, nil
	}
	f, id, err := in.s.createImage(in.m.Size)
	if err != nil {
		return nil, err
	}
	in.fresh = in.s.freshImage(id)
	in.file = &blockFile{File: f, id: id, release: in.s.guard.write(id)}
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	in.w.images[id] = in.file
	return in.file, nil
}

func (s *Store) freshImage(id uint64) string {
	return s.path(imagesDir, fmt.Sprintf("%s%016x", disk.Dirty, id))
}

// createImage makes an empty image file under a name that the next Open removes.
func (s *Store) createImage(size int64) (disk.File, uint64, error) {
	id := s.nextID.Add(1)
	f, err := s.fs.Create(s.freshImage(id))
	if err != nil {
		return nil, 0, s.hostError(err)
	}
	if err := f.Truncate(size); err != nil {
		return nil, 0, s.hostError(errors.Join(err, f.Close(), s.fs.Remove(s.freshImage(id))))
	}
	return f, id, nil
}

// nameImage gives an image file the name under which it is found again. Its bytes need not last
// yet.
func (s *Store) nameImage(id uint64, manifest agentbox.Digest) error {
	if err := s.fs.Rename(s.freshImage(id), s.path(imagesDir, imageName(id, manifest))); err != nil {
		return s.hostError(err)
	}
	s.handles.know(id, manifest) // whether or not the name lasts: until then it is found there
	return s.hostError(s.fs.SyncDir(s.path(imagesDir)))
}

func (in *intake) commit(ctx context.Context) (Stored, error) {
	c := commitment{}
	if in.file != nil {
		// The file is synced before it is named, so that whoever finds it by its name finds it
		// complete.
		if err := in.file.Sync(); err != nil {
			return Stored{}, in.s.hostError(err)
		}
		in.file.dirty = false
		if err := in.s.nameImage(in.file.id, blob.Sum(in.m.Encode())); err != nil {
			return Stored{}, err
		}
		in.fresh = ""
		c = commitment{file: in.file.id, whole: in.linked || !in.shared}
	}
	return in.s.commit(ctx, in.w, in.m, c)
}

// close removes the file of an image that did not come to be.
func (in *intake) close() error {
	err := in.w.close()
	if in.fresh != "" {
		err = errors.Join(err, in.s.fs.Remove(in.fresh))
		in.s.space.add(in.w.kind, -in.w.charged)
	}
	return err
}
