package handover

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/durable"
	peers "agentbox/mesh/identity"
	"agentbox/vmm/image"
)

const (
	aheadLimit   = 4 << 30 // bytes, unless the user says otherwise
	maxAhead     = 200     // contexts
	aheadEvery   = 5 * time.Minute
	aheadTimeout = time.Hour        // of one context
	lookEvery    = 10 * time.Second // whether the machine is still idle
)

// ahead gets what contexts of others began with before anybody enters them (contexts.Ahead): images,
// results of setup and commits, which are most of what entering waits for. Nothing of it runs.
type ahead struct {
	*Handover
	turn sync.Mutex // held by a round

	mu   sync.Mutex         // held while the file is changed; guards stop
	stop context.CancelFunc // ends the round that runs, or ran last
}

// aheadFile is what this machine got, and how much it may.
type aheadFile struct {
	Limit    int64            `json:"limit"`          // bytes; 0 is off
	Past     int64            `json:"past,omitempty"` // bytes of histories of contexts that are gone
	Contexts []contexts.Ahead `json:"contexts,omitempty"`
}

func (a aheadFile) bytes() int64 {
	n := a.Past
	for _, one := range a.Contexts {
		n += one.Bytes
	}
	return n
}

func (a *ahead) read() (aheadFile, error) {
	f := aheadFile{Limit: aheadLimit}
	err := durable.ReadJSON(a.Home.Ahead(), &f)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return f, err
}

func (a *ahead) change(how func(*aheadFile)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := a.read()
	if err == nil {
		how(&f)
		err = durable.WriteJSON(a.Home.Ahead(), f, 0o600)
	}
	return err
}

// Run makes rounds while this machine is idle, until ctx ends.
func (a *ahead) Run(ctx context.Context) {
	for background.Sleep(ctx, aheadEvery) {
		if m := a.Mesh; m == nil || m.Self().IsZero() {
			continue
		}
		tick := time.NewTicker(lookEvery)
		whileIdle(ctx, tick.C, a.isIdle, func(ctx context.Context) {
			if err := a.round(ctx); err != nil && ctx.Err() == nil {
				a.Log.Warn("cannot get contexts of others ahead", "error", err)
			}
		})
		tick.Stop()
	}
}

func (a *ahead) isIdle(ctx context.Context) bool {
	busy, err := a.Busy(ctx)
	return err == nil && len(busy) == 0
}

// whileIdle does something if the machine is idle, and ends it when it is not any more. It looks at each
// tick.
func whileIdle(ctx context.Context, tick <-chan time.Time, idle func(context.Context) bool, do func(context.Context)) {
	if !idle(ctx) {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	for {
		select {
		case <-done:
			return
		case <-tick:
			if !idle(ctx) {
				stop()
			}
		}
	}
}

// round asks each member that is there what it lets this machine enter, and gets what is not here.
func (a *ahead) round(ctx context.Context) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.mu.Lock()
	a.stop = stop
	a.mu.Unlock()
	f, err := a.read()
	if err != nil || a.Mesh == nil || f.Limit == 0 && len(f.Contexts) == 0 {
		return err
	}
	offered := map[peers.PeerID][]contexts.Base{}
	for _, peer := range a.Mesh.OnlinePeers() {
		if list, err := a.offers(ctx, peer); err == nil { // else it is gone, or another time
			offered[peer] = list
		}
	}
	for _, one := range f.Contexts {
		if _, err := a.Mesh.Find(one.Owner.String()); err != nil { // no member any more
			offered[one.Owner] = nil
		}
	}
	get, keep, gone := contexts.Compare(f.Contexts, offered)
	if f.Limit == 0 {
		get, keep, gone = nil, nil, f.Contexts
	}
	for _, one := range gone {
		a.drop(ctx, one, slices.Concat(keep, get))
		f.Past += one.History
	}
	f.Contexts = keep
	record := func(g *aheadFile) { g.Contexts, g.Past = f.Contexts, f.Past }
	for _, one := range get[:min(len(get), max(maxAhead-len(keep), 0))] {
		f.Contexts = append(f.Contexts, a.get(ctx, one, f.Limit-f.bytes()-one.Bytes))
		if err := a.change(record); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return a.change(record)
}

// offers are what a member lets this machine enter.
func (a *ahead) offers(ctx context.Context, peer peers.PeerID) ([]contexts.Base, error) {
	if peer == a.Peers.Self() {
		return nil, nil
	}
	c, err := a.Peers.DialService(ctx, peer, contexts.Service)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return contexts.AskBases(ctx, c)
}

// get gets what is not here, as far as left allows.
func (a *ahead) get(ctx context.Context, one contexts.Ahead, left int64) contexts.Ahead {
	ctx, cancel := context.WithTimeout(ctx, aheadTimeout)
	defer cancel()
	limit := one.Bytes + left
	for _, part := range []func(context.Context, *contexts.Ahead, int64) error{a.image, a.setup, a.commit} {
		err := part(ctx, &one, limit-one.Bytes)
		if err != nil && one.Problem == "" {
			one.Problem = agentbox.AsError(err).Message
		}
	}
	return one
}

func tooLarge(what string, size int64) error {
	return agentbox.Errorf(agentbox.NoSpace, "%s has %d bytes, more than is left of the limit", what, size)
}

func (a *ahead) image(ctx context.Context, one *contexts.Ahead, left int64) error {
	if one.Image.IsZero() {
		return nil
	}
	img, err := a.Boxes.Images.Exact(ctx, one.Image, nil)
	if err != nil || img.Lazy == nil {
		return err
	}
	lacks := img.Size - a.Boxes.Images.Describe(img).Present
	if lacks > left {
		return tooLarge("its image", lacks)
	}
	if _, err = a.Boxes.Images.Complete(ctx, img, nil); err == nil {
		one.Bytes, one.Brought = one.Bytes+lacks, true
	}
	return err
}

func (a *ahead) setup(ctx context.Context, one *contexts.Ahead, left int64) error {
	if one.Key.IsZero() {
		return nil
	}
	if made, err := a.Results.Find(ctx, one.Key); err == nil && made.Manifest == one.Result {
		return nil
	}
	size, err := a.Snapshots.SizeOf(ctx, a.Remotes, one.Result)
	if err == nil && size > left {
		err = tooLarge("what setup made", size)
	}
	if err == nil {
		_, err = a.Team.Setup(ctx, one.Key, nil)
	}
	if err == nil {
		one.Bytes += size
	}
	return err
}

// commit gets the commit and its history, from a checkout of this machine if one has it.
func (a *ahead) commit(ctx context.Context, one *contexts.Ahead, left int64) error {
	if one.Commit == "" {
		return nil
	}
	d, dir, lacks, err := a.base(ctx, one.Project, one.Commit)
	if err != nil || !lacks {
		return err
	}
	have, err := d.Bases(ctx, dir, maxBases)
	if err != nil {
		return err
	}
	p := &pulling{Handover: a.Handover, peer: one.Owner, whose: one.Owner}
	p.out.From = a.Peers.Name(one.Owner)
	answer, err := p.ask(ctx, contexts.Question{Name: one.ID, Bases: true, Have: have})
	if err != nil {
		return err
	}
	pack, size, err := p.pack(ctx, answer.History, left)
	if err != nil {
		return err
	}
	defer pack.Close()
	if err = d.ReceiveBase(ctx, dir, pack); err == nil {
		one.Bytes, one.History = one.Bytes+size, one.History+size
	}
	return err
}

// drop drops an image that came for a context which is gone, unless something else needs it. What else
// came is evicted when nobody uses it.
func (a *ahead) drop(ctx context.Context, gone contexts.Ahead, others []contexts.Ahead) {
	images := a.Boxes.Images
	list, err := images.Store.List()
	needed := slices.ContainsFunc(others, func(k contexts.Ahead) bool { return k.Image == gone.Image }) ||
		slices.ContainsFunc(list, func(img image.Image) bool { return img.Base == gone.Image })
	if err != nil || needed || !gone.Brought {
		return
	}
	_, err = images.Remove(ctx, api.ImageRef{Image: gone.Image.String()}, nil)
	if code := agentbox.CodeOf(err); err != nil && code != agentbox.Conflict && code != agentbox.NotFound {
		a.Log.Warn("cannot drop an image that came ahead", "image", gone.Image.Short(), "error", err)
	}
}

// serve is api.Prefetch.
func (a *ahead) serve(ctx context.Context, req api.PrefetchRequest, _ agentbox.Progress) (out api.Prefetched, err error) {
	if req.Limit != nil {
		if err := a.setLimit(*req.Limit); err != nil {
			return out, err
		}
	}
	if req.Now || req.Limit != nil && *req.Limit == 0 {
		if err := a.round(ctx); err != nil {
			return out, err
		}
	}
	f, err := a.read()
	if err != nil {
		return out, err
	}
	busy, err := a.Busy(ctx)
	out = api.Prefetched{Limit: f.Limit, Bytes: f.bytes(), Busy: busy, Contexts: []api.PrefetchedContext{}}
	for _, one := range f.Contexts {
		out.Contexts = append(out.Contexts, api.PrefetchedContext{
			Machine: a.Peers.Name(one.Owner), ID: one.ID, Project: one.Project, Bytes: one.Bytes, Problem: one.Problem,
		})
	}
	return out, err
}

func (a *ahead) setLimit(limit int64) error {
	if limit < 0 {
		return agentbox.Errorf(agentbox.Invalid, "%d bytes are no limit", limit)
	}
	err := a.change(func(f *aheadFile) { f.Limit = limit })
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		a.stop() // the next one has the new limit
	}
	return err
}

// Ready tells whether what a context began with is here.
func (a *ahead) Ready() func(owner, id string) bool {
	f, _ := a.read() // one that cannot be read has none
	return func(owner, id string) bool {
		return slices.ContainsFunc(f.Contexts, func(one contexts.Ahead) bool { return one.ID == id && one.Owner.String() == owner && one.Problem == "" })
	}
}
