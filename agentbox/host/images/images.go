package images

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/vmm/image"
)

// Config is what Images needs.
type Config struct {
	Store      *image.Store
	ChunkStore ChunkStore // nil: images are only made here
	// HasPeers tells whether other machines wait for what is made here; nil: none do.
	HasPeers func() bool
	// CheckAvailable says why part of an image can no longer be had from anyone, nil while all may
	// still arrive. Without the function, images are waited for indefinitely.
	CheckAvailable func(context.Context, image.Image) error
	// UsedBy names the boxes that run from an image.
	UsedBy func(agentbox.Digest) []string
	// NeedsComplete says why machines of a kind cannot start from a part of an image here, nil if
	// they can. err: there are no such machines.
	NeedsComplete func(agentbox.Isolation) (why, err error)
	Home          string // the source that is shown for this machine's complete images
	Log           *slog.Logger
}

// Images are the images of this machine. Its methods may be called concurrently. No lock is held
// while bytes are waited for.
type Images struct {
	Config

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // its goroutines

	completions *completions
	imageAdded  chan struct{} // an image was made or got
}

// New opens the images of a store. Nothing runs before Start.
func New(cfg Config) *Images {
	i := &Images{Config: cfg, imageAdded: make(chan struct{}, 1)}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.completions = newCompletions(i)
	return i
}

// Start begins to add images to the store, and to complete those that machines already run from. It
// returns at once; Close ends what it starts.
func (i *Images) Start(using []Using) {
	i.running.Go(func() { i.completions.resume(using) })
	if i.ChunkStore == nil {
		return
	}
	i.running.Go(i.storePeriodically)
	i.running.Go(i.storeNew)
}

// Using is a machine that runs from an image.
type Using struct {
	Isolation agentbox.Isolation
	File      string
}

// Close ends what Start began and all completions; what has arrived is kept. Pending calls of Need
// fail, and supervisors ask the next daemon.
func (i *Images) Close() error {
	i.cancel()
	i.running.Wait()
	return i.completions.close()
}

func (i *Images) storePeriodically() {
	var seen map[agentbox.Digest]bool
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		select {
		case <-i.ctx.Done():
			return
		case <-tick.C:
			seen = i.storeImages(seen)
		}
	}
}

// Want is an image that is asked for: a recipe, and a lock file that pins it.
type Want struct {
	Recipe image.Recipe
	// Lock: the lock file that pins it; "" for what nobody wrote down.
	Lock   string
	AddTo  string                          // without Lock: the lock file that gets a pin if it has none
	Update bool                            // make it anew and replace the pin
	Pinned func(recipe image.Recipe) error // called when an image was made by the lock file
}

// Ensure finds or makes an image. It returns when the image is here, whole or lazily. One of
// several callers with one recipe makes it (vmm/image).
func (i *Images) Ensure(ctx context.Context, w Want, progress agentbox.Progress) (image.Image, error) {
	end := progress.Begin("image", w.Recipe.Source)
	find := func() (image.Image, error) { return i.pinned(ctx, w, progress) }
	img, err := i.retryIfLost(ctx, progress, func() (image.Image, error) { return i.withCompleteImage(ctx, progress, find) })
	i.StoreNow()
	if err != nil {
		return image.Image{}, agentbox.MarkNoSpace(err)
	}
	end(img.Digest.Short())
	return img, nil
}

// retryIfLost calls find, and once more if the image it found can never be completed because the
// members that had it are gone. That image is forgotten first.
func (i *Images) retryIfLost(ctx context.Context, progress agentbox.Progress, find func() (image.Image, error)) (image.Image, error) {
	img, err := find()
	lost := i.lost(ctx, img, err)
	if lost == nil {
		return img, err
	}
	progress.Note(lost.Error() + ": it is made anew")
	if err := i.Forget(ctx, img.Digest); err != nil {
		return img, err
	}
	return find()
}

// lost says why an incomplete image can never be completed, unless a box runs from it.
func (i *Images) lost(ctx context.Context, img image.Image, err error) error {
	if err != nil || img.Lazy == nil || i.CheckAvailable == nil || len(i.UsedBy(img.Digest)) > 0 {
		return nil
	}
	return i.CheckAvailable(ctx, img)
}

// pinned returns the image that the lock file pins, or makes and pins it.
func (i *Images) pinned(ctx context.Context, w Want, progress agentbox.Progress) (image.Image, error) {
	if w.Lock == "" {
		img, err := i.Store.Ensure(ctx, w.Recipe, agentbox.Digest{}, progress)
		if err == nil && w.AddTo != "" {
			err = i.Store.Pin(ctx, w.AddTo, w.Recipe, img, progress)
		}
		return img, err
	}
	img, err := i.Store.EnsureLocked(ctx, w.Lock, w.Recipe, w.Update, progress)
	if err != nil {
		return img, err
	}
	return img, w.Pinned(w.Recipe)
}

// Get returns an image that is here, repaired if it was damaged. NotFound if there is none.
func (i *Images) Get(ctx context.Context, d agentbox.Digest, progress agentbox.Progress) (image.Image, error) {
	return i.withRepair(ctx, progress, func() (image.Image, error) { return i.Store.Get(d.String()) })
}

// Exact returns the image with a digest, which may come from the team. NotFound if nobody has it.
func (i *Images) Exact(ctx context.Context, d agentbox.Digest, progress agentbox.Progress) (image.Image, error) {
	end := progress.Begin("image", d.Short())
	img, err := i.withRepair(ctx, progress, func() (image.Image, error) { return i.Store.Exact(ctx, d, progress) })
	if err == nil {
		end(img.Digest.Short())
	}
	return img, err
}

// Expect begins to get what boxes read first of an image, unless it is here. The rest comes after a box has
// read that.
func (i *Images) Expect(ctx context.Context, img image.Image) error {
	if img.Lazy == nil {
		return nil
	}
	c, err := i.completions.open(ctx, img)
	if err == nil {
		c.release()
	}
	return err
}

// Find returns base with the layers of a key, made here or by another member of the team.
func (i *Images) Find(ctx context.Context, base image.Image, key agentbox.Digest, progress agentbox.Progress) (image.Image, error) {
	return i.retryIfLost(ctx, progress, func() (image.Image, error) { return i.Store.Find(ctx, base, key, progress) })
}

// Derive adds layers to an image, which it completes first. d.Key names the result, so it is made
// once.
func (i *Images) Derive(ctx context.Context, base image.Image, d image.Derivation, progress agentbox.Progress) (image.Image, error) {
	img, err := i.retryIfLost(ctx, progress, func() (image.Image, error) {
		return i.withCompleteImage(ctx, progress, func() (image.Image, error) { return i.Store.Derive(ctx, base, d, progress) })
	})
	i.StoreNow()
	return img, agentbox.MarkNoSpace(err)
}

// Import makes an image of an archive (docker save).
func (i *Images) Import(ctx context.Context, archive string, progress agentbox.Progress) (image.Image, error) {
	return i.Ensure(ctx, Want{Recipe: image.Recipe{Source: "docker-archive:" + archive}}, progress)
}

// FindBase returns the base of a recipe if it was made here and still exists.
func (i *Images) FindBase(r image.Recipe) (image.Image, bool) { return i.Store.FindBase(r) }

// Pull makes an image from a source, without a repository or a pin. It may be from a private
// registry, since the user asked for it by name.
func (i *Images) Pull(ctx context.Context, req api.ImagePullRequest, progress agentbox.Progress) (api.Image, error) {
	img, err := i.Ensure(ctx, Want{Recipe: image.Recipe{Source: req.Source, Private: true}}, progress)
	if err != nil {
		return api.Image{}, err
	}
	return i.Describe(img), nil
}

// Describe is an image as people see it.
func (i *Images) Describe(img image.Image) api.Image {
	out := api.Image{Digest: img.Digest, Name: img.Name, Source: img.Source, Size: img.Size, Created: img.Created, UsedBy: i.UsedBy(img.Digest)}
	if img.Lazy != nil && i.ChunkStore != nil {
		out.From = img.Lazy.From
		out.Present = i.completions.presentBytes(i.ctx, img)
	}
	return out
}

// List lists the images that are here.
func (i *Images) List(context.Context, api.None, agentbox.Progress) ([]api.Image, error) {
	list, err := i.Store.List()
	if err != nil {
		return nil, err
	}
	out := []api.Image{}
	for _, img := range list {
		out = append(out, i.Describe(img))
	}
	return out, nil
}

// Remove removes an image that no box uses, even if it is damaged.
func (i *Images) Remove(ctx context.Context, req api.ImageRef, _ agentbox.Progress) (api.Image, error) {
	img, err := i.Store.Get(req.Image)
	if err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
		return api.Image{}, err
	}
	out := i.Describe(img)
	if len(out.UsedBy) > 0 {
		return out, agentbox.Errorf(agentbox.Conflict, "image %s is used by %s", img.Digest.Short(), out.UsedBy[0]).
			WithHint("agentbox rm %s first", out.UsedBy[0])
	}
	return out, i.Forget(ctx, img.Digest)
}

// Forget removes an image, and what the store has for it alone.
func (i *Images) Forget(ctx context.Context, d agentbox.Digest) error {
	if i.ChunkStore == nil {
		return i.Store.Remove(ctx, d)
	}
	return errors.Join(i.completions.drop(d), i.Store.Remove(ctx, d), i.ChunkStore.Forget(ctx, d))
}

// Drop removes an image that must not be used any more, because its maker is no longer a builder of
// the team. It returns false, to be retried later, while a box runs from the image or if removing it fails.
func (i *Images) Drop(ctx context.Context, d agentbox.Digest) bool {
	if _, err := i.Store.Get(d.String()); err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
		return agentbox.CodeOf(err) == agentbox.NotFound
	}
	if by := i.UsedBy(d); len(by) > 0 {
		i.Log.Warn("an image was made by a former builder of the team, and a box runs from it: remove the image and make it again", "image", d.Short(), "box", by[0])
		return false
	}
	if err := i.Forget(ctx, d); err != nil {
		i.Log.Error("an image was made by a former builder of the team, and cannot be removed", "image", d.Short(), "error", err)
		return false
	}
	return true
}

// unusedTime is how long an image without a box is kept for the next box.
const unusedTime = 7 * 24 * time.Hour

// Unneeded are the images that no box, no other image and no recent build needs.
func (i *Images) Unneeded() ([]image.Image, error) {
	list, err := i.Store.List()
	if err != nil {
		return nil, err
	}
	base := map[agentbox.Digest]bool{}
	for _, img := range list {
		base[img.Base] = true
	}
	var out []image.Image
	for _, img := range list {
		if !base[img.Digest] && len(i.UsedBy(img.Digest)) == 0 && time.Since(img.Created) >= unusedTime {
			out = append(out, img)
		}
	}
	return out, nil
}
