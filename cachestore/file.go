package cachestore

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// checked remembers the image files that were found whole and right by this process. It is not kept
// on disk: what a disk did to a file while no process looked is found once per process, and that is
// what hashing an image costs.
type checked struct {
	mu  sync.Mutex
	now map[agentbox.Digest]bool
}

// forget is for what was damaged, evicted, or is said to be damaged.
func (c *checked) forget(d agentbox.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.now, d)
}

func (c *checked) is(d agentbox.Digest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now[d]
}

func (c *checked) remember(d agentbox.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		c.now = map[agentbox.Digest]bool{}
	}
	c.now[d] = true
}

// File gives an image as a plain file, to be attached and never written to, and keeps it until
// release is called. It is the file the store keeps, completed with the blocks that so far lay in
// other images' files, or came from src (which may be nil). All of it was hashed, once since the
// store was opened.
//
// What outlives this process and uses the file pins the manifest.
//
// Invalid when the manifest is of a stream; NotFound when a block is neither here nor with src.
// release may be called more than once; it is nil after an error.
func (s *Store) File(ctx context.Context, manifest agentbox.Digest, src Source) (path string, release func(), err error) {
	release = s.guard.hold(manifest)
	path, err = s.file(ctx, manifest, src)
	if err != nil {
		release()
		return "", nil, err
	}
	return path, release, nil
}

// Repair is File for an image of which somebody says that it is damaged: all of it is hashed again.
func (s *Store) Repair(ctx context.Context, manifest agentbox.Digest, src Source) (path string, release func(), err error) {
	s.checked.forget(manifest)
	return s.File(ctx, manifest, src)
}

// file is File for callers that hold the manifest.
func (s *Store) file(ctx context.Context, d agentbox.Digest, src Source) (string, error) {
	m, err := s.EnsureManifest(ctx, d, src)
	if err != nil {
		return "", err
	}
	if !m.Blocks {
		return "", agentbox.Errorf(agentbox.Invalid, "%s is a stream: it has no file of its own", d.Short())
	}
	id, err := s.ensureImage(d, m)
	if err != nil {
		return "", err
	}
	if !s.checked.is(d) {
		if err := s.complete(ctx, d, m, src); err != nil {
			return "", err
		}
		s.checked.remember(d)
	}
	return s.path(imagesDir, imageName(id, d)), s.touch(d)
}

// complete makes an image's file hold every block: it hashes what lies there, and puts right what
// does not match. Then it says that the file is whole.
func (s *Store) complete(ctx context.Context, d agentbox.Digest, m blob.Manifest, src Source) error {
	f := s.newFiller(d, m, src)
	file, err := f.open()
	if err == nil {
		err = s.hostError(resize(file, m.Size))
	}
	if err == nil {
		err = f.completeBlocks(ctx, file)
	}
	if err := errors.Join(err, f.close()); err != nil {
		return err
	}
	return s.setWhole(d)
}

// setWhole says that the image's file holds every block, on disk. Listings show it, and a rebuild
// goes by it when there are two files; that the bytes are right is another matter (checked).
func (s *Store) setWhole(d agentbox.Digest) error {
	return s.changeMeta(d, func(m *index.Meta, known bool) bool {
		was := m.Whole
		m.Whole = true
		return known && !was
	})
}

// resize gives a file its length again that was cut short: its end may be a hole. One that has it
// is not touched.
func resize(file disk.File, size int64) error {
	st, err := file.Stat()
	if err != nil || st.Size == size {
		return err
	}
	return file.Truncate(size)
}

// completeBlocks does that for all blocks but those of zeros, which in a file of ours are holes
// that nothing was ever written to.
func (f *filler) completeBlocks(ctx context.Context, file *blockFile) error {
	workers := newWorkers(ctx, f.s.cfg.Workers)
	var err error
	for i, c := range f.m.Chunks {
		if c.Zero() {
			continue
		}
		if err = workers.do(func(ctx context.Context) error { return f.completeBlock(ctx, workers, file, i) }); err != nil {
			break
		}
	}
	if waited := workers.wait(); waited != nil {
		return waited
	}
	return err
}

// completeBlock does it for block i. A block that cannot be read for other reasons than that its
// bytes are gone ends all of it.
func (f *filler) completeBlock(ctx context.Context, workers *workers, file *blockFile, i int) error {
	c, off := f.m.Chunks[i], int64(i)*blob.BlockSize
	buf := workers.buffer()[:c.Size]
	defer workers.recycle(buf)
	if n, err := file.ReadAt(buf, off); n == len(buf) && f.s.recognise(c.Digest, buf) == nil {
		return nil
	} else if err != nil && !lostBytes(err) {
		return f.s.hostError(err)
	}
	// Where the index says that the block is in this very place, reading it finds the damage and
	// says so.
	b, err := f.chunk(ctx, i, buf)
	if err != nil {
		return err
	}
	return f.write(ctx, file, b, off)
}

// CopyTo writes an image to a new plain file, which must not exist, with holes where it has zeros,
// hashing every block on the way. It is not synced, and removed after an error. A blob that is a
// stream is copied, too. Blocks that are missing come from src, which may be nil.
func (s *Store) CopyTo(ctx context.Context, manifest agentbox.Digest, dst string, src Source) (err error) {
	r, err := s.OpenBlob(ctx, manifest, src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s.hostError(err)
	}
	err = errors.Join(out.Truncate(r.Size()), r.copyTo(ctx, disk.Of(out)), out.Close())
	if err != nil {
		return s.hostError(errors.Join(err, os.Remove(dst)))
	}
	return nil
}

// copyTo writes every chunk that is not zeros to its place.
func (r *Reader) copyTo(ctx context.Context, out io.WriterAt) error {
	workers := newWorkers(ctx, r.fill.s.cfg.Workers)
	var err error
	at := int64(0)
	for i, c := range r.fill.m.Chunks {
		off := at
		at += int64(c.Size)
		if c.Zero() {
			continue
		}
		err = workers.do(func(ctx context.Context) error {
			buf := workers.buffer()
			defer workers.recycle(buf)
			b, err := r.fill.chunk(ctx, i, buf)
			if err == nil {
				workers.locked(func() { _, err = out.WriteAt(b, off) }) // see blockFile.WriteAt
			}
			return err
		})
		if err != nil {
			break
		}
	}
	if waited := workers.wait(); waited != nil {
		return waited
	}
	return err
}
