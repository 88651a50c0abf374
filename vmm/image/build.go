package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"

	"agentbox/agentbox/durable"
)

// epoch is the time of files that no layer describes. In apt images no file is newer: those that
// installation scripts write would differ from build to build.
var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// build is an image in the making. It belongs to one goroutine. While the build runs, lock holds a
// lock on dir, by which clear tells it from a build that died.
type build struct {
	dir      string
	lock     *os.File
	spool    *rootfs.Spool // the contents of files from layers
	open     []*os.File    // the images from which tree was read: contents of files stay in them
	tree     *rootfs.Tree
	image    Image // finish completes it
	progress agentbox.Progress
}

// newBuild makes an empty build. It holds the lock of tmp meanwhile, so that clear does not remove
// the directory before it is locked.
func (s *Store) newBuild(ctx context.Context, p agentbox.Progress) (*build, error) {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return nil, err
	}
	defer release()
	dir, err := os.MkdirTemp(filepath.Join(s.dir, tmpDir), "build-")
	if err != nil {
		return nil, hostError(err)
	}
	b := &build{dir: dir, tree: rootfs.New(s.limits, epoch), progress: p}
	if b.lock, err = os.Open(dir); err == nil {
		err = durable.TryLockFile(b.lock)
	}
	if err == nil {
		b.spool, err = rootfs.NewSpool(dir)
	}
	if err != nil {
		return nil, errors.Join(hostError(err), b.close())
	}
	return b, nil
}

// close removes everything of a build that is not in the store. It is called once.
func (b *build) close() error {
	var errs []error
	if b.spool != nil {
		errs = append(errs, b.spool.Close())
	}
	for _, f := range b.open {
		errs = append(errs, f.Close())
	}
	if _, err := os.Lstat(filepath.Join(b.dir, bootstrapLink)); err != nil { // else clear has something to remove later
		errs = append(errs, os.RemoveAll(b.dir))
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}

// clear removes the directories of builds that died. What cannot be removed, because of a mount
// below it or a file of a user namespace, stays for the next time.
func (s *Store) clear(ctx context.Context) error {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	names, err := os.ReadDir(filepath.Join(s.dir, tmpDir))
	if err != nil {
		return hostError(err)
	}
	var errs []error
	for _, d := range names {
		path := filepath.Join(s.dir, tmpDir, d.Name())
		if held, _ := durable.Held(path); !held && removeBootstrap(path) == nil {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(append(errs, s.clearImages())...)
}

// clearImages removes image directories without a description, which are incomplete.
func (s *Store) clearImages() error {
	names, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil {
		return hostError(err)
	}
	var errs []error
	for _, d := range names {
		path := filepath.Join(s.dir, imagesDir, d.Name())
		if _, err := os.Stat(filepath.Join(path, imageMetaName)); errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(d.Name(), ".") {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// finish writes the image file and its description, moves both into the store, and records them as
// the result of the recipe, in this order: after a crash the image is complete or not there.
func (s *Store) finish(ctx context.Context, b *build) (Image, error) {
	path := filepath.Join(b.dir, imageFileName)
	if err := b.write(ctx, path); err != nil {
		return Image{}, hostError(err)
	}
	now, err := durable.Identify(path)
	if err != nil {
		return Image{}, hostError(err)
	}
	b.image.Size, b.image.Created = now.Size, time.Now().UTC().Truncate(time.Second)
	err = errors.Join(writeJSON(filepath.Join(b.dir, imageCheckName), checked{b.image.Digest, now}), writeJSON(filepath.Join(b.dir, imageMetaName), b.image))
	if err == nil {
		err = s.adopt(ctx, b)
	}
	if err == nil {
		err = s.setRecipe(b.image.Key, b.image)
	}
	if err != nil {
		return Image{}, hostError(err)
	}
	made, err := s.describe(b.image.Digest)
	return s.ofRecipe(b.image.Key, made), err
}

// write writes the erofs file, syncs it, and computes its digest, the last two at the same time.
func (b *build) write(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close() // for errors; a second Close does nothing
	reported := int64(0)
	err = b.tree.Write(ctx, f, func(done int64) {
		if done-reported >= 8<<20 {
			reported = done
			b.progress.Update(step, fmt.Sprintf("write %d MiB", done>>20), done, 0)
		}
	})
	if err != nil {
		return err
	}
	b.progress.Update(step, "hash", 0, 0)
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	digest, err := agentbox.DigestFile(path)
	if err := errors.Join(err, <-synced, f.Close()); err != nil {
		return err
	}
	b.image.Digest = digest
	return nil
}

// adopt moves a finished build to its place. It renames the directory, since renaming a file
// changes the times by which it was verified. If the image is there already it stays, because
// machines may have it open, unless it is damaged or lazy. adopt holds the lock of tmp.
func (s *Store) adopt(ctx context.Context, b *build) error {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	place := s.imageDir(b.image.Digest)
	if here, err := s.open(b.image.Digest); err == nil && here.Lazy == nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(place), durable.SyncDir(b.dir)); err != nil {
		return err
	}
	if err := os.Rename(b.dir, place); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(place))
}
