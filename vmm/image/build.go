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

// epoch is the time of everything in an image that has no time of its own, and the newest time in
// apt images: files that installation scripts write would otherwise differ from build to build.
var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// build is one image being made in a directory of its own. It belongs to one goroutine. dir is
// locked (lock) for as long as the build runs, by which clear tells it from one that died.
type build struct {
	dir  string
	lock *os.File
	// Where the contents of files from layers are, until they are written.
	spool *rootfs.Spool
	keep  *os.File // the image that tree was read from, if it was
	tree  *rootfs.Tree
	// The description as far as it is known; finish completes it.
	image    Image
	progress agentbox.Progress
}

// newBuild makes an empty build. The lock of tmp is held meanwhile, so that clear does not take the
// directory for a dead one's before it is locked.
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

// close removes everything of a build that is not in the store by now: what is left in the spool
// and of the downloads goes. It is called once.
func (b *build) close() error {
	var errs []error
	if b.spool != nil {
		errs = append(errs, b.spool.Close())
	}
	if b.keep != nil {
		errs = append(errs, b.keep.Close())
	}
	if _, err := os.Lstat(filepath.Join(b.dir, bootstrapLink)); err != nil { // a link left means something to clear later
		errs = append(errs, os.RemoveAll(b.dir))
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Close())
	}
	return errors.Join(errs...)
}

// clear removes the directories of builds that nobody works on any more. It is called when a store
// is opened. What cannot be removed now (a mount below it, a file of a user namespace's) stays for
// the next time and is no error.
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
		// A build that runs has its directory locked. What has mounts in it stays, with its link, for
		// the next time.
		if held, _ := durable.Held(path); !held && removeBootstrap(path) == nil {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(append(errs, s.clearImages())...)
}

// clearImages removes image directories without a description: nothing in them can be used.
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

// finish writes the tree as an image file and takes it into the store under the key of its recipe.
// The description is written beside the image before both are moved to their place, and the recipe
// is noted last: whatever comes in between, the image is whole or not there.
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
		err = s.setRecipe(b.image.Key, b.image.Digest)
	}
	if err != nil {
		return Image{}, hostError(err)
	}
	return s.describe(b.image.Digest)
}

// write makes the erofs file, makes sure it is on the disk, and computes its digest. Hashing and
// syncing go side by side, since neither has to wait for the other.
func (b *build) write(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close() // again after the Close below, where its error is of no interest
	told := int64(0)
	err = b.tree.Write(ctx, f, func(done int64) {
		if done-told >= 8<<20 {
			told = done
			b.progress.Move(step, fmt.Sprintf("write %d MiB", done>>20), done, 0)
		}
	})
	if err != nil {
		return err
	}
	b.progress.Move(step, "hash", 0, 0)
	synced := make(chan error, 1)
	go func() { synced <- f.Sync() }()
	digest, err := agentbox.DigestFile(path)
	if err := errors.Join(err, <-synced, f.Close()); err != nil {
		return err
	}
	b.image.Digest = digest
	return nil
}

// adopt moves a finished build to its place, as a whole: a rename of the files themselves would
// change their stat. An image that is there already has the same bytes and stays, unless it is
// damaged or not all here. The lock of tmp is what makes it one at a time.
func (s *Store) adopt(ctx context.Context, b *build) error {
	release, err := flock(ctx, filepath.Join(s.dir, locksDir, tmpLockName), nil)
	if err != nil {
		return err
	}
	defer release()
	place := s.imageDir(b.image.Digest)
	// Machines may have that file open, and its stat is what it was verified by.
	if here, err := s.open(b.image.Digest); err == nil && here.Lazy == nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(place), durable.SyncDir(b.dir), os.Rename(b.dir, place)); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(place))
}
