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

// File returns an image as a plain file, which the caller must not write to, and keeps it until
// release is called. It is the store's own file, completed with the blocks that were in other
// images' files or come from src (which may be nil). All of it has been hashed at least once since
// the store was opened. To use the file for longer than this process, pin the manifest.
//
// The error is Invalid when the manifest is of a stream, and NotFound when a block is neither in
// the store nor in src. release may be called more than once; it is nil after an error.
func (s *Store) File(ctx context.Context, manifest agentbox.Digest, src Source) (path string, release func(), err error) {
	release = s.guard.hold(manifest)
	path, err = s.file(ctx, manifest, src)
	if err != nil {
		release()
		return "", nil, err
	}
	return path, release, nil
}

// Repair is File for an image that may be damaged: it hashes all of it again.
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

// complete makes an image's file hold every block but those of zeros, which are holes in our own
// files, and then records that the file is whole.
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
			return f.ensureBlock(ctx, file, i, buf, true)
		})
	}
	if err := errors.Join(err, f.close()); err != nil {
		return err
	}
	return s.markComplete(d)
}

// markComplete records that the image's file holds every block, on disk. Listings show it, and a
// rebuild prefers such a file. It does not mean that the bytes are correct (checked).
func (s *Store) markComplete(d agentbox.Digest) error {
	return s.changeMeta(d, func(m *index.Meta, known bool) bool {
		changed := known && !m.Whole
		m.Whole = true
		return changed
	})
}

// resize restores the length of a file that was truncated, because its end may be a hole.
func resize(file disk.File, size int64) error {
	st, err := file.Stat()
	if err != nil || st.Size == size {
		return err
	}
	return file.Truncate(size)
}

// CopyTo writes a blob to a new plain file, with holes in place of zeros, and hashes every chunk.
// dst must not exist. It is not synced, and removed after an error. Missing chunks come from src,
// which may be nil.
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
	err = errors.Join(out.Truncate(r.Size()), r.copyTo(ctx, disk.NewFile(out)), out.Close())
	if err != nil {
		return s.hostError(errors.Join(err, os.Remove(dst)))
	}
	return nil
}

// copyTo writes every chunk that is not zeros at its offset.
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
