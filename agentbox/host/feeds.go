package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/image"
	"agentbox/vmm/partial"
)

// feeds are the images that are being completed, one Filling each, for as long as the daemon runs or until the image is removed.
//
// What a box waits for comes first. What an earlier boot is known to have read comes next, at once; the rest comes when for a while nobody
// has needed anything, so that it does not compete with a box that starts.
type feeds struct {
	m *Manager

	mu      sync.Mutex
	now     map[agentbox.Digest]*feed
	waiting map[agentbox.BoxID]waiting
	opening sync.Mutex // held while a feed is opened
}

// waiting is what a box waits for.
type waiting struct {
	since     time.Time
	from, why string
}

// feed is one image's.
type feed struct {
	Filling
	m      *Manager
	img    image.Image
	ctx    context.Context // ends when it is dropped
	cancel context.CancelFunc
	work   sync.WaitGroup // its goroutine, and who uses it

	mu    sync.Mutex
	used  time.Time // when somebody last needed something; zero for never
	taken bool      // the image is a plain file by now
}

func newFeeds(m *Manager) *feeds {
	return &feeds{m: m, now: map[agentbox.Digest]*feed{}, waiting: map[agentbox.BoxID]waiting{}}
}

// open gives the feed of an image, which it starts when there is none. The caller gives it back with work.Done.
func (f *feeds) open(ctx context.Context, img image.Image) (*feed, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if got := f.share(img.Digest); got != nil {
		return got, nil
	}
	if img.Lazy == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "image %s is all here", img.Digest.Short())
	}
	filling, err := f.m.origins.Open(ctx, img)
	if err != nil {
		return nil, err
	}
	got := &feed{Filling: filling, m: f.m, img: img}
	got.ctx, got.cancel = context.WithCancel(f.m.ctx)
	got.work.Go(got.run)
	f.mu.Lock()
	f.now[img.Digest] = got
	f.mu.Unlock()
	return f.share(img.Digest), nil
}

// share counts one more who uses a feed that is there. None joins one that is being dropped.
func (f *feeds) share(d agentbox.Digest) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.now[d]
	if got != nil {
		got.work.Add(1)
	}
	return got
}

// here counts the bytes of an image that have come, those of the last moments too.
func (f *feeds) here(ctx context.Context, img image.Image) int64 {
	lasting, _ := f.m.origins.Here(ctx, img) // a manifest that is gone is got again, and until then nothing is here
	feed := f.share(img.Digest)
	if feed == nil {
		return lasting
	}
	defer feed.work.Done()
	return max(lasting, feed.Here())
}

// Times of a feed.
const (
	feedQuiet    = 5 * time.Second // without a need, before the rest is got
	feedRetry    = 200 * time.Millisecond
	feedPatience = 10 * time.Second // the longest between two tries
	feedSlow     = time.Second      // after which a need that has not been met is called waiting
)

// run gets what is foretold and then, when it is quiet, the rest.
func (f *feed) run() {
	ctx := f.ctx
	f.persist(ctx, "get what a box reads first", func() error { return f.Prefetch(ctx, f.Foretold()) })
	if !f.quiet(ctx) {
		return
	}
	f.persist(ctx, "get the rest", func() error { return f.Complete(ctx, nil) })
	if ctx.Err() != nil {
		return
	}
	if err := f.completed(ctx); err != nil && ctx.Err() == nil {
		f.m.log.Error("an image that came lazily cannot be taken in", "image", f.img.Digest.Short(), "error", err)
	}
}

// persist does something until it succeeds or ctx ends.
func (f *feed) persist(ctx context.Context, what string, do func() error) {
	for wait := feedRetry; ; wait = min(2*wait, feedPatience) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if wait == feedRetry {
			f.m.log.Warn("an image that comes lazily: cannot "+what, "image", f.img.Digest.Short(), "from", f.img.Lazy.From, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// quiet returns when for a while nobody has needed anything, after somebody had; false when ctx ended before.
func (f *feed) quiet(ctx context.Context) bool {
	tick := time.NewTicker(feedQuiet / 10)
	defer tick.Stop()
	for {
		f.mu.Lock()
		used := f.used
		f.mu.Unlock()
		if !used.IsZero() && time.Since(used) > feedQuiet {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func (f *feed) use() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = time.Now()
}

// completed makes the image a plain file. It remembers what boxes read first: the blocks that were needed before the rest came.
func (f *feed) completed(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken {
		return nil
	}
	if err := f.m.images.Completed(ctx, f.img.Digest, f.Path()); err != nil {
		return err
	}
	f.taken = true
	if trace := f.Trace(); len(trace) > 0 && len(f.m.images.Trace(f.img.Digest)) == 0 {
		return f.m.images.SetTrace(f.img.Digest, trace)
	}
	return nil
}

// need returns when a block of an image may be read, with all that may, and shows meanwhile that the box waits. It gives up when ctx ends
// and not before: the other end of it is a machine, which knows no other answer than the bytes.
func (f *feeds) need(ctx context.Context, box agentbox.BoxID, img image.Image, block int) (partial.Answer, error) {
	feed, err := f.find(ctx, img)
	if err != nil {
		return partial.Answer{}, err
	}
	defer feed.work.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(feed.ctx, stop)()
	feed.use()
	defer feed.use()
	slow := time.AfterFunc(feedSlow, func() { f.note(box, img, "it has not answered yet") })
	defer f.met(box, slow)
	for wait := feedRetry; ; wait = min(2*wait, feedPatience) {
		err := feed.Need(ctx, block)
		if err == nil {
			return partial.Answer{Path: feed.Path(), Have: feed.Have()}, nil
		}
		if ctx.Err() != nil || agentbox.CodeOf(err) == agentbox.Invalid {
			return partial.Answer{}, err
		}
		f.note(box, img, agentbox.AsError(err).Message)
		select {
		case <-ctx.Done():
			return partial.Answer{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// find is open for a machine that reads on where an earlier daemon served it: by now the image may be all here.
func (f *feeds) find(ctx context.Context, img image.Image) (*feed, error) {
	if img.Lazy == nil {
		manifest, err := f.m.origins.Keep(ctx, img, 0)
		if err != nil {
			return nil, err
		}
		img.Lazy = &image.Lazy{Manifest: manifest, From: f.m.home.Dir}
	}
	return f.open(ctx, img)
}

func (f *feeds) note(box agentbox.BoxID, img image.Image, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiting[box]
	if w.since.IsZero() {
		w.since = time.Now()
		f.m.log.Warn("a box waits for its image", "box", box, "image", img.Digest.Short(), "from", img.Lazy.From, "why", why)
	}
	w.from, w.why = img.Lazy.From, why
	f.waiting[box] = w
}

// met forgets that a box waits, as soon as one of its reads was answered: the others say so again if they go on waiting.
func (f *feeds) met(box agentbox.BoxID, slow *time.Timer) {
	slow.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, box)
}

// of tells what a box waits for.
func (f *feeds) of(box agentbox.BoxID) (waiting, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, ok := f.waiting[box]
	return w, ok
}

// drop ends the feed of an image.
func (f *feeds) drop(d agentbox.Digest) error {
	f.mu.Lock()
	feed := f.now[d]
	delete(f.now, d)
	f.mu.Unlock()
	if feed == nil {
		return nil
	}
	feed.cancel()
	feed.work.Wait()
	return feed.Close()
}

// resume goes on with the images of boxes that an earlier daemon fed.
func (f *feeds) resume() {
	for _, b := range f.m.all() {
		if b.live() == nil {
			continue
		}
		rec := b.record()
		img, err := f.m.lazyImage(f.m.ctx, rec.Box.Isolation, rec.ImageFile, nil)
		if err != nil || img == nil {
			continue // its supervisor asks when it needs anything
		}
		if feed, err := f.open(f.m.ctx, *img); err == nil {
			feed.use()
			feed.work.Done()
		}
	}
}

// close ends them all.
func (f *feeds) close() error {
	f.mu.Lock()
	var all []agentbox.Digest
	for d := range f.now {
		all = append(all, d)
	}
	f.mu.Unlock()
	var errs []error
	for _, d := range all {
		errs = append(errs, f.drop(d))
	}
	return errors.Join(errs...)
}
