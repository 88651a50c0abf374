package images

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/host/keyed"
	"agentbox/vmm/image"
	"agentbox/vmm/lazyimage"
)

// completions are the images that are being completed, with one LazyImage each, until the daemon
// ends or the image is removed.
//
// Blocks that a box waits for come first, then at once those that an earlier boot is known to have
// read. The rest comes when nothing was needed for a while, so that it does not compete with a box
// that starts. mu guards the maps.
type completions struct {
	images *Images

	mu      sync.Mutex
	now     map[agentbox.Digest]*completion
	waiting map[agentbox.BoxID]Waiting
	opening keyed.Locks // by digest; held while one is opened, which may ask remotes
}

// Waiting says that a machine waits for bytes of its image, since when, from where, and the last
// error.
type Waiting struct {
	Since     time.Time
	From, Why string
}

// completion completes one image. work counts its users, so that drop can wait for them. mu guards
// used and complete, and is held while the image becomes a plain file, which happens once.
type completion struct {
	LazyImage
	images *Images
	img    image.Image
	ctx    context.Context // ends when it is dropped
	cancel context.CancelFunc
	work   sync.WaitGroup // its goroutines and its users

	recording      sync.Mutex       // held while received bytes are recorded
	receivedBefore []image.Received // by earlier completions
	recorded       int64            // bytes of this one that are recorded

	mu       sync.Mutex
	used     time.Time // when a block was last needed; zero for never
	complete bool      // the image is a plain file
}

// newCompletions makes the completions of i; none is open.
func newCompletions(i *Images) *completions {
	return &completions{images: i, now: map[agentbox.Digest]*completion{}, waiting: map[agentbox.BoxID]Waiting{}}
}

// open returns the completion of an image, and starts one if there is none. The caller releases it.
// Conflict for a complete image.
func (c *completions) open(ctx context.Context, img image.Image) (*completion, error) {
	defer c.opening.Lock(img.Digest.Hex())()
	if got := c.share(img.Digest); got != nil {
		return got, nil
	}
	if img.Lazy == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "image %s is complete already", img.Digest.Short())
	}
	filling, err := c.images.ChunkStore.Open(ctx, img)
	if err != nil {
		return nil, err
	}
	got := &completion{LazyImage: filling, images: c.images, img: img, receivedBefore: c.images.Store.Received(img.Digest)}
	got.ctx, got.cancel = context.WithCancel(c.images.ctx)
	got.work.Go(got.run)
	got.work.Go(got.recordPeriodically)
	got.work.Add(1) // before somebody else can drop it
	c.mu.Lock()
	c.now[img.Digest] = got
	c.mu.Unlock()
	return got, nil
}

// share adds a user to an open completion, nil if there is none that is not being dropped.
func (c *completions) share(d agentbox.Digest) *completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.now[d]
	if got != nil {
		got.work.Add(1)
	}
	return got
}

// presentBytes counts the bytes of an image that have arrived, including those not yet durable.
func (c *completions) presentBytes(ctx context.Context, img image.Image) int64 {
	// Without the manifest, which is fetched again, nothing counts as here.
	durable, _ := c.images.ChunkStore.LocalBytes(ctx, img)
	f := c.share(img.Digest)
	if f == nil {
		return durable
	}
	defer f.release()
	return max(durable, f.PresentBytes())
}

// Times of a completion.
const (
	idleDelay     = 5 * time.Second  // how long no block is needed before the rest is fetched
	maxRetryDelay = 10 * time.Second // the longest pause between two attempts
	waitingAfter  = time.Second      // after which a box counts as waiting
)

// run fetches the blocks that a boot is known to read and then, when no box needs blocks, the rest.
func (c *completion) run() {
	ctx := c.ctx
	c.persist(ctx, "get what a box reads first", func() error { return c.Prefetch(ctx, c.ReadFirst()) })
	if !c.awaitIdle(ctx) {
		return
	}
	c.persist(ctx, "get the rest", func() error { return c.Complete(ctx, nil) })
	if ctx.Err() != nil {
		return
	}
	if err := c.finish(ctx); err != nil && ctx.Err() == nil {
		c.images.Log.Error("a lazily fetched image cannot be added to the store", "image", c.img.Digest.Short(), "error", err)
	}
}

// persist retries do until it succeeds or ctx ends. It logs the first failure only, since other
// machines may be off for days.
func (c *completion) persist(ctx context.Context, what string, do func() error) {
	logged := false
	_ = lazyimage.Retry(ctx, maxRetryDelay, do, func(err error) bool { // what remains is the end of ctx
		if !logged {
			c.images.Log.Warn("a lazily fetched image: cannot "+what, "image", c.img.Digest.Short(), "from", c.img.Lazy.From, "error", err)
		}
		logged = true
		return true
	})
}

// release ends a use that open, share or find began.
func (c *completion) release() { c.work.Done() }

// untilDropped is ctx for a user of f, who must not keep drop waiting: it also ends when f is
// dropped. stop frees it.
func (c *completion) untilDropped(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(c.ctx, func() {
		cancel(agentbox.Errorf(agentbox.Unavailable, "image %s was removed, or the daemon ends", c.img.Digest.Short()))
	})
	return ctx, func() { forget(); cancel(nil) }
}

// awaitIdle waits until no block was needed for idleDelay, after one was; false if ctx ends.
func (c *completion) awaitIdle(ctx context.Context) bool {
	tick := time.NewTicker(idleDelay / 10)
	defer tick.Stop()
	for {
		c.mu.Lock()
		used := c.used
		c.mu.Unlock()
		if !used.IsZero() && time.Since(used) > idleDelay {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// touch says that a block is needed now, so that the rest waits.
func (c *completion) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
}

// finish makes the image a plain file and remembers what boxes read first: the blocks that were
// needed before the rest came. It may be repeated.
func (c *completion) finish(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.complete {
		return nil
	}
	if err := c.images.Store.Completed(ctx, c.img.Digest, c.Path()); err != nil {
		return err
	}
	c.complete = true
	c.recordReceived()
	if trace := c.Trace(); len(trace) > 0 && len(c.images.Store.Trace(c.img.Digest)) == 0 {
		return c.images.Store.SetTrace(c.img.Digest, trace)
	}
	return nil
}

// need waits until a block of an image can be read and returns all blocks that can. Meanwhile the
// box is shown as waiting. It only gives up when ctx ends, because the machine can use nothing but
// the bytes. Invalid for a block that the image does not have.
func (c *completions) need(ctx context.Context, box agentbox.BoxID, img image.Image, block int) (agentbox.Blocks, error) {
	f, err := c.find(ctx, img)
	if err != nil {
		return agentbox.Blocks{}, err
	}
	defer f.release()
	ctx, stop := f.untilDropped(ctx)
	defer stop()
	f.touch()
	defer f.touch()
	slow := time.AfterFunc(waitingAfter, func() { c.setWaiting(box, img, "it has not answered yet") })
	defer c.clearWaiting(box, slow)
	err = lazyimage.Retry(ctx, maxRetryDelay, func() error { return f.Need(ctx, block) }, func(err error) bool {
		if agentbox.CodeOf(err) == agentbox.Invalid {
			return false
		}
		c.setWaiting(box, img, agentbox.AsError(err).Message)
		return true
	})
	if err != nil {
		return agentbox.Blocks{}, err
	}
	return agentbox.Blocks{Path: f.Path(), Have: f.Bitmap()}, nil
}

// find is open for a machine that an earlier daemon served; the image may be complete by now.
func (c *completions) find(ctx context.Context, img image.Image) (*completion, error) {
	if img.Lazy == nil {
		manifest, err := c.images.ChunkStore.Add(ctx, img, 0)
		if err != nil {
			return nil, err
		}
		img.Lazy = &image.Lazy{Manifest: manifest, From: c.images.Home}
	}
	return c.open(ctx, img)
}

// setWaiting records that a box waits, since when and why. It logs each wait once.
func (c *completions) setWaiting(box agentbox.BoxID, img image.Image, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[box]
	if w.Since.IsZero() {
		w.Since = time.Now()
		c.images.Log.Warn("a box waits for its image", "box", box, "image", img.Digest.Short(), "from", img.Lazy.From, "why", why)
	}
	w.From, w.Why = img.Lazy.From, why
	c.waiting[box] = w
}

// clearWaiting records that a box no longer waits because one of its reads was answered. Other
// reads call setWaiting again.
func (c *completions) clearWaiting(box agentbox.BoxID, slow *time.Timer) {
	slow.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, box)
}

// Waiting says what a box waits for. The zero BoxID is a machine of this process.
func (i *Images) Waiting(box agentbox.BoxID) (Waiting, bool) {
	c := i.completions
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.waiting[box]
	return w, ok
}

// drop ends an open completion and waits for its users. The store keeps what has arrived.
func (c *completions) drop(d agentbox.Digest) error {
	c.mu.Lock()
	f := c.now[d]
	delete(c.now, d)
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	f.cancel()
	f.work.Wait()
	f.recordReceived()
	return f.Close()
}

// resume completes the images that machines run from and that an earlier daemon was completing.
func (c *completions) resume(using []Using) {
	for _, u := range using {
		img, err := c.images.Lazy(c.images.ctx, u.Isolation, u.File, nil)
		if err != nil || img == nil {
			continue // its supervisor asks when it needs a block
		}
		if f, err := c.open(c.images.ctx, *img); err == nil {
			f.touch()
			f.release()
		}
	}
}

func (c *completions) close() error {
	c.mu.Lock()
	var all []agentbox.Digest
	for d := range c.now {
		all = append(all, d)
	}
	c.mu.Unlock()
	var errs []error
	for _, d := range all {
		errs = append(errs, c.drop(d))
	}
	return errors.Join(errs...)
}
