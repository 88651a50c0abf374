package images

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/image"
	"agentbox/vmm/partial"
)

// completions are the images that are being completed, one Filling each, for as long as the daemon
// runs or until the image is removed.
//
// What a box waits for comes first. What an earlier boot is known to have read comes next, at once;
// the rest comes when for a while nobody has needed anything, so that it does not compete with a
// box that starts. mu guards the maps for a moment. opening is held while a completion is opened,
// which may ask elsewhere, so that an image has one.
type completions struct {
	room *Images

	mu      sync.Mutex
	now     map[agentbox.Digest]*completion
	waiting map[agentbox.BoxID]Waiting
	opening sync.Mutex // held while a completion is opened
}

// Waiting is what a machine waits for: bytes of its image, from a place that does not give them;
// Why is its last error.
type Waiting struct {
	Since     time.Time
	From, Why string
}

// completion is one image's. Those that use it are counted in work, so that drop can wait for them;
// mu guards used and taken, and is held while the image is made a plain file, which happens once.
type completion struct {
	Filling
	room   *Images
	img    image.Image
	ctx    context.Context // ends when it is dropped
	cancel context.CancelFunc
	work   sync.WaitGroup // its goroutine, and who uses it

	booking sync.Mutex       // held while who sent what is written down
	before  []image.Received // by earlier completions
	booked  int64            // bytes of this one that are written down

	mu    sync.Mutex
	used  time.Time // when somebody last needed something; zero for never
	taken bool      // the image is a plain file by now
}

// newCompletions makes the completions of a room; none is open.
func newCompletions(i *Images) *completions {
	return &completions{room: i, now: map[agentbox.Digest]*completion{}, waiting: map[agentbox.BoxID]Waiting{}}
}

// open gives the completion of an image, which it starts when there is none. The caller gives it
// back with release. Conflict for an image that is all here.
func (c *completions) open(ctx context.Context, img image.Image) (*completion, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if got := c.share(img.Digest); got != nil {
		return got, nil
	}
	if img.Lazy == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "image %s is all here", img.Digest.Short())
	}
	filling, err := c.room.Content.Open(ctx, img)
	if err != nil {
		return nil, err
	}
	got := &completion{Filling: filling, room: c.room, img: img, before: c.room.Store.Received(img.Digest)}
	got.ctx, got.cancel = context.WithCancel(c.room.ctx)
	got.work.Go(got.run)
	got.work.Go(got.book)
	c.mu.Lock()
	c.now[img.Digest] = got
	c.mu.Unlock()
	return c.share(img.Digest), nil
}

// share counts one more who uses a completion that is there. None joins one that is being dropped.
func (c *completions) share(d agentbox.Digest) *completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.now[d]
	if got != nil {
		got.work.Add(1)
	}
	return got
}

// here counts the bytes of an image that have come, those of the last moments too.
func (c *completions) here(ctx context.Context, img image.Image) int64 {
	// A manifest that is gone is got again, and until then nothing is here.
	lasting, _ := c.room.Content.Here(ctx, img)
	f := c.share(img.Digest)
	if f == nil {
		return lasting
	}
	defer f.release()
	return max(lasting, f.Here())
}

// Times of a completion.
const (
	quietTime = 5 * time.Second  // without a need, before the rest is got
	lastRetry = 10 * time.Second // the longest between two tries to get bytes from elsewhere
	slowNeed  = time.Second      // after which a need that has not been met is called waiting
)

// run gets what is foretold and then, when it is quiet, the rest.
func (f *completion) run() {
	ctx := f.ctx
	f.persist(ctx, "get what a box reads first", func() error { return f.Prefetch(ctx, f.ReadFirst()) })
	if !f.quiet(ctx) {
		return
	}
	f.persist(ctx, "get the rest", func() error { return f.Complete(ctx, nil) })
	if ctx.Err() != nil {
		return
	}
	if err := f.completed(ctx); err != nil && ctx.Err() == nil {
		f.room.Log.Error("an image that came lazily cannot be taken in", "image", f.img.Digest.Short(), "error", err)
	}
}

// persist does something until it succeeds or ctx ends. A failure is logged once: it may go on for
// days, while other machines are off.
func (f *completion) persist(ctx context.Context, what string, do func() error) {
	told := false
	_ = partial.Retry(ctx, lastRetry, do, func(err error) bool { // what is left is the end of ctx
		if !told {
			f.room.Log.Warn("an image that comes lazily: cannot "+what, "image", f.img.Digest.Short(), "from", f.img.Lazy.From, "error", err)
		}
		told = true
		return true
	})
}

// release gives a completion back that open, share or find has given.
func (f *completion) release() { f.work.Done() }

// quiet returns when for a while nobody has needed anything, after somebody had; false when ctx
// ended before.
func (f *completion) quiet(ctx context.Context) bool {
	tick := time.NewTicker(quietTime / 10)
	defer tick.Stop()
	for {
		f.mu.Lock()
		used := f.used
		f.mu.Unlock()
		if !used.IsZero() && time.Since(used) > quietTime {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// use says that somebody needs something of the image now, so the rest waits.
func (f *completion) use() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
}

// completed makes the image a plain file. It remembers what boxes read first: the blocks that were
// needed before the rest came. It may be called again.
func (f *completion) completed(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken {
		return nil
	}
	if err := f.room.Store.Completed(ctx, f.img.Digest, f.Path()); err != nil {
		return err
	}
	f.taken = true
	f.note()
	if trace := f.Trace(); len(trace) > 0 && len(f.room.Store.Trace(f.img.Digest)) == 0 {
		return f.room.Store.SetTrace(f.img.Digest, trace)
	}
	return nil
}

// need returns when a block of an image may be read, with all that may, and shows meanwhile that
// the box waits. It gives up when ctx ends and not before: the other end of it is a machine, which
// knows no other answer than the bytes. Invalid, a block that the image does not have, is the one
// error that ends it.
func (c *completions) need(ctx context.Context, box agentbox.BoxID, img image.Image, block int) (agentbox.Blocks, error) {
	f, err := c.find(ctx, img)
	if err != nil {
		return agentbox.Blocks{}, err
	}
	defer f.release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(f.ctx, stop)()
	f.use()
	defer f.use()
	slow := time.AfterFunc(slowNeed, func() { c.note(box, img, "it has not answered yet") })
	defer c.met(box, slow)
	err = partial.Retry(ctx, lastRetry, func() error { return f.Need(ctx, block) }, func(err error) bool {
		if agentbox.CodeOf(err) == agentbox.Invalid {
			return false
		}
		c.note(box, img, agentbox.AsError(err).Message)
		return true
	})
	if err != nil {
		return agentbox.Blocks{}, err
	}
	return agentbox.Blocks{Path: f.Path(), Have: f.Have()}, nil
}

// find is open for a machine that reads on where an earlier daemon served it: by now the image may
// be all here.
func (c *completions) find(ctx context.Context, img image.Image) (*completion, error) {
	if img.Lazy == nil {
		manifest, err := c.room.Content.Keep(ctx, img, 0)
		if err != nil {
			return nil, err
		}
		img.Lazy = &image.Lazy{Manifest: manifest, From: c.room.Home}
	}
	return c.open(ctx, img)
}

// note says that a box waits, since when it first did, and why. It is logged once for each wait.
func (c *completions) note(box agentbox.BoxID, img image.Image, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[box]
	if w.Since.IsZero() {
		w.Since = time.Now()
		c.room.Log.Warn("a box waits for its image", "box", box, "image", img.Digest.Short(), "from", img.Lazy.From, "why", why)
	}
	w.From, w.Why = img.Lazy.From, why
	c.waiting[box] = w
}

// met forgets that a box waits, as soon as one of its reads was answered: the others say so again
// if they go on waiting.
func (c *completions) met(box agentbox.BoxID, slow *time.Timer) {
	slow.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, box)
}

// Waiting tells what a box waits for; the zero BoxID is a machine of this process.
func (i *Images) Waiting(box agentbox.BoxID) (Waiting, bool) {
	c := i.completions
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.waiting[box]
	return w, ok
}

// drop ends the completion of an image. It waits for those that use it, and what has come stays in
// the store. One that is not open is nothing to drop.
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
	f.note()
	return f.Close()
}

// resume goes on with the images that machines run from which an earlier daemon completed.
func (c *completions) resume(using []Using) {
	for _, u := range using {
		img, err := c.room.Lazy(c.room.ctx, u.Isolation, u.File, nil)
		if err != nil || img == nil {
			continue // its supervisor asks when it needs anything
		}
		if f, err := c.open(c.room.ctx, *img); err == nil {
			f.use()
			f.release()
		}
	}
}

// close ends them all.
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
