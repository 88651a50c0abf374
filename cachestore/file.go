package cachestore

import (
	"context"
	"errors"
	"io"
	"os"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/disk"
	"agentbox/cachestore/index"
)

// File returns an image as a plain file, to be attached and never written to, and keeps it until
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
	s.checked.Delete(manifest)
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
	if _, ok := s.checked.Load(d); !ok {
		if err := s.complete(ctx, d, m, src); err != nil {
			return "", err
		}
		s.checked.Store(d, nil)
	}
	return s.path(imagesDir, imageName(id, d)), s.touch(d)
}

// complete makes an image's file hold every block but those of zeros, which in a file of ours are
// holes that nothing was ever written to. Then it says that the file is whole.
func (s *Store) complete(ctx context.Context, d agentbox.Digest, m blob.Manifest, src Source) error {
	f := s.newFiller(d, m, src)
	file, err := f.open()
	if err == nil {
		err = s.hostError(resize(file, m.Size))
	}
	if err == nil {
		workers := newWorkers(ctx)
		err = workers.each(m.Data(), func(ctx context.Context, i int) error {
			buf := workers.buffer()
			defer workers.recycle(buf)
			return f.place(ctx, file, i, buf, true)
		})
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
		changed := known && !m.Whole
		m.Whole = true
		return changed
	})
}

// resize restores the length of a file that was cut short: its end may be a hole. One that has it
// is not touched.
func resize(file disk.File, size int64) error {
	st, err := file.Stat()
	if err != nil || st.Size == size {
		return err
	}
	return file.Truncate(size)
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
	workers := newWorkers(ctx)
	return workers.each(r.fill.m.Data(), func(ctx context.Context, i int) error {
		buf := workers.buffer()
		defer workers.recycle(buf)
		b, err := r.fill.chunk(ctx, i, buf)
		if err == nil {
			workers.locked(func() { _, err = out.WriteAt(b, r.start(i)) }) // see blockFile.WriteAt
		}
		return err
	})
}
