package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/vmm"
	"agentbox/vmm/image"
	"agentbox/vmm/lazyimage"
)

// ChunkStore keeps images and gets them from elsewhere, whole or block by block. Its methods may be
// called concurrently. layers.Images implements it.
type ChunkStore interface {
	// Add adds an image that is here to the store, reading rate bytes a second, 0 for no limit.
	// Corrupt if the image is damaged.
	Add(ctx context.Context, img image.Image, rate int64) (manifest agentbox.Digest, err error)
	// Forget removes an image from the store.
	Forget(ctx context.Context, digest agentbox.Digest) error
	// Export writes an image to a directory, with the blocks that boxes read first. progress gets
	// the number of pieces.
	Export(ctx context.Context, img image.Image, trace []uint32, dir string, progress func(done, total int)) error
	// List lists the images at a remote; all are lazy.
	List(ctx context.Context, from string) ([]image.Image, error)
	// Prepare prepares the completion of one of them. Open opens its file afterwards.
	Prepare(ctx context.Context, img image.Image) error
	Open(ctx context.Context, img image.Image) (LazyImage, error)
	// Repair repairs the store's file of an image with pieces from the given or known remotes. The
	// file lasts until release. NotFound if the store does not have the image.
	Repair(ctx context.Context, digest agentbox.Digest, remotes ...string) (file string, release func(), err error)
	// LocalBytes counts the bytes of an image that are durable.
	LocalBytes(ctx context.Context, img image.Image) (int64, error)
}

// LazyImage is the file of an image that is being completed (cachestore.LazyImage). A block can be
// read once Need or Bitmap says so; it was verified against the manifest.
type LazyImage interface {
	Path() string
	BlockSize() int64
	Need(ctx context.Context, block int) error
	Bitmap() []byte
	PresentBytes() int64
	Received() []image.Received // since it was opened
	Trace() []uint32
	ReadFirst() []uint32
	Prefetch(ctx context.Context, blocks []uint32) error
	Complete(ctx context.Context, progress func(done, total int)) error
	Close() error
}

// Fetch gets an image from a directory or URL, all of it, or with Lazy only what a box needs when
// it needs it. An image that is complete is not fetched. With Lazy, Fetch returns when the
// description is here.
func (i *Images) Fetch(ctx context.Context, req api.ImageFetchRequest, progress agentbox.Progress) (api.Image, error) {
	list, err := i.ChunkStore.List(ctx, req.From)
	if err != nil {
		return api.Image{}, err
	}
	img, err := findImage(list, req.Image, req.From)
	if err != nil {
		return api.Image{}, err
	}
	here, err := i.withRepair(ctx, progress, func() (image.Image, error) { return i.Store.Get(img.Digest.String()) }, req.From)
	if err == nil && here.Lazy == nil {
		return i.Describe(here), nil
	}
	if err := i.ChunkStore.Prepare(ctx, img); err != nil {
		return api.Image{}, agentbox.MarkNoSpace(err)
	}
	if img, err = i.Store.AddLazy(ctx, img); err != nil {
		return api.Image{}, agentbox.MarkNoSpace(err)
	}
	if !req.Lazy && img.Lazy != nil {
		if img, err = i.Complete(ctx, img, progress); err != nil {
			return api.Image{}, err
		}
	}
	return i.Describe(img), nil
}

// findImage finds an image by digest, prefix of a digest, or name. NotFound and Conflict name the
// images at that remote.
func findImage(list []image.Image, ref, from string) (image.Image, error) {
	var found []image.Image
	hex := strings.TrimPrefix(ref, "sha256:")
	for _, img := range list {
		if ref == "" || img.Name == ref || len(hex) >= 4 && strings.HasPrefix(img.Digest.Hex(), hex) {
			found = append(found, img)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(list) == 0 || len(found) == 0:
		return image.Image{}, agentbox.Errorf(agentbox.NotFound, "no image %q at %s", ref, from).WithHint("it has %s", agentbox.Plural(len(list), "other"))
	}
	var names []string
	for _, img := range found {
		names = append(names, img.Digest.Short()+" "+img.Name)
	}
	return image.Image{}, agentbox.Errorf(agentbox.Conflict, "%d images at %s are meant: %s", len(found), from, strings.Join(names, "; ")).
		WithHint("name one of them by the beginning of its digest")
}

// Export writes an image to a directory, from which Fetch gets it. An incomplete image is completed
// first.
func (i *Images) Export(ctx context.Context, req api.ImageExportRequest, progress agentbox.Progress) (api.Image, error) {
	if !filepath.IsAbs(req.Directory) {
		return api.Image{}, agentbox.Errorf(agentbox.Invalid, "%q is not an absolute path", req.Directory)
	}
	img, err := i.withRepair(ctx, progress, func() (image.Image, error) { return i.Store.Get(req.Image) })
	if err == nil && img.Lazy != nil {
		img, err = i.Complete(ctx, img, progress)
	}
	if err != nil {
		return api.Image{}, err
	}
	end := progress.Begin("export", req.Directory)
	err = i.ChunkStore.Export(ctx, img, i.Store.Trace(img.Digest), req.Directory, func(done, total int) {
		progress.Update("export", req.Directory, int64(done), int64(total))
	})
	if err != nil {
		return api.Image{}, agentbox.MarkNoSpace(err)
	}
	end(img.Digest.Short())
	return i.Describe(img), nil
}

// Complete completes an image and returns it as a plain file. It takes as long as the remotes
// need; what has arrived when ctx ends is kept.
func (i *Images) Complete(ctx context.Context, img image.Image, progress agentbox.Progress) (image.Image, error) {
	end := progress.Begin("image", "getting the rest of "+img.Digest.Short()+" from "+img.Lazy.From)
	f, err := i.completions.open(ctx, img)
	if err != nil {
		return img, err
	}
	defer f.release()
	ctx, stop := f.untilDropped(ctx)
	defer stop()
	err = f.Complete(ctx, func(done, total int) {
		progress.Update("image", "fetch from "+img.Lazy.From, int64(done)*f.BlockSize(), int64(total)*f.BlockSize())
	})
	if err == nil {
		err = f.finish(ctx)
	}
	if dropped := context.Cause(ctx); err != nil && dropped != nil && f.ctx.Err() != nil {
		return img, dropped
	}
	if err != nil {
		return img, agentbox.MarkNoSpace(unavailable(img, err))
	}
	end(img.Digest.Short())
	return i.Store.Get(img.Digest.String())
}

// unavailable is the error of an image whose bytes do not arrive, with a hint how to do without an
// image of the team.
func unavailable(img image.Image, err error) error {
	err = fmt.Errorf("image %s: %w", img.Digest.Short(), err)
	if img.Origin == "" {
		return err
	}
	e := *agentbox.AsError(err)
	e.Hint = "run the command again when its machines are there (agentbox mesh peers), or have it made here: agentbox image rm " + img.Digest.Short()
	return &e
}

// withRepair calls do, and again if do failed because of a damaged image that could be repaired,
// with pieces from the given remotes, then from known ones. If the repair fails, the error is do's.
func (i *Images) withRepair(ctx context.Context, progress agentbox.Progress, do func() (image.Image, error), remotes ...string) (image.Image, error) {
	img, err := do()
	var damaged *image.DamagedError
	if !errors.As(err, &damaged) || i.ChunkStore == nil {
		return img, err
	}
	end := progress.Begin("mend", err.Error())
	file, release, repairErr := i.ChunkStore.Repair(ctx, damaged.Digest, remotes...)
	if repairErr == nil {
		defer release()
		repairErr = i.Store.Completed(ctx, damaged.Digest, file)
	}
	if repairErr != nil {
		i.Log.Warn("a damaged image cannot be repaired", "image", damaged.Digest.Short(), "error", repairErr)
		return img, err
	}
	end(damaged.Digest.Short())
	return do()
}

// withCompleteImage calls do, and again if it needs a complete or undamaged image.
func (i *Images) withCompleteImage(ctx context.Context, progress agentbox.Progress, do func() (image.Image, error)) (image.Image, error) {
	img, err := i.withRepair(ctx, progress, do)
	var missing *image.NotHereError
	if !errors.As(err, &missing) {
		return img, err
	}
	if _, err := i.Complete(ctx, missing.Image, progress); err != nil {
		return img, err
	}
	return do()
}

// Lazy returns the image of a machine if only a part of it is here, nil if it is complete. If
// machines of this kind need complete images on this host, it completes the image. An existing file
// counts as complete; the store is not asked, because every start calls Lazy.
func (i *Images) Lazy(ctx context.Context, kind agentbox.Isolation, file string, progress agentbox.Progress) (*image.Image, error) {
	if _, err := os.Stat(file); err == nil || i.ChunkStore == nil {
		return nil, nil
	}
	img, err := i.Store.Get(filepath.Base(filepath.Dir(file)))
	if err != nil || img.Lazy == nil {
		return nil, err
	}
	why, err := i.NeedsComplete(kind)
	if err != nil {
		return nil, err
	}
	if why == nil {
		return &img, nil
	}
	progress.Note(fmt.Sprintf("%s here cannot start from a part of an image, so all of it comes first: %v", kind, why))
	_, err = i.Complete(ctx, img, progress)
	return nil, err
}

// Need serves a supervisor whose machine reads a missing block. It returns when the block is here,
// however long that takes, or when ctx ends.
func (i *Images) Need(ctx context.Context, req api.ImageNeed, progress agentbox.Progress) (agentbox.Blocks, error) {
	img, err := i.Store.Get(req.Image.String())
	if err != nil {
		return agentbox.Blocks{}, err
	}
	return i.completions.need(ctx, req.Box, img, req.Block)
}

// Partial is what a supervisor needs to read an incomplete image.
func (i *Images) Partial(ctx context.Context, img image.Image) (lazyimage.Image, error) {
	f, err := i.completions.open(ctx, img)
	if err != nil {
		return lazyimage.Image{}, err
	}
	defer f.release()
	return lazyimage.Image{Path: f.Path(), Size: img.Size, Block: f.BlockSize()}, nil
}

// ReadLazily lets a machine of this process read an incomplete image. It is for the machine that a
// template is made from, which has no supervisor. stop is called once the machine has ended.
func (i *Images) ReadLazily(ctx context.Context, spec *vmm.Spec, img image.Image) (stop func(), err error) {
	about, err := i.Partial(ctx, img)
	if err != nil {
		return nil, err
	}
	f, err := lazyimage.Open(about, func(ctx context.Context, block int) (agentbox.Blocks, error) {
		return i.completions.need(ctx, agentbox.BoxID{}, img, block)
	})
	if err != nil {
		return nil, err
	}
	spec.Blocks = f
	return func() { f.Close() }, nil
}

// Stalled returns an error about the missing bytes that a machine of this process waits for, or err
// if it does not wait.
func (i *Images) Stalled(img *image.Image, err error) error {
	w, ok := i.Waiting(agentbox.BoxID{})
	if img == nil || !ok {
		return err
	}
	return agentbox.Errorf(agentbox.Unavailable, "bytes of image %s do not come from %s: %s", img.Digest.Short(), w.From, w.Why).
		WithHint("run the command again when they are available; what was fetched is kept")
}
