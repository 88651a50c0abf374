package cachestore

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Priority orders what is asked of a Session: what somebody waits for comes before all else.
type Priority int

// The priorities, the lowest first.
const (
	Bulk   Priority = iota // in whatever order is best for all who want the blob
	Soon                   // it will be needed, roughly in this order
	Demand                 // somebody waits for it
)

// Arrived takes the bytes of a chunk when they came. It is called from several goroutines, at most
// once at a time for a chunk, and not after Close has returned. b is the receiver's for the call
// only. An error of code Corrupt says that the bytes are not those of the chunk: the Session gets
// them elsewhere or fails. Any other error is the receiver's own (its disk is full, say), and ends
// what wants the chunk.
type Arrived func(ctx context.Context, chunk int, b []byte) error

// Session gets the chunks of one blob from a Source. Its methods may be called at once; the caller
// of OpenSession closes it, once. storetest.TestSession is what each must pass; mesh/exchange has
// the one with many peers behind it.
type Session interface {
	// Fetch has chunks arrive, each once, and returns when all of them have, or with the first
	// error; asking again may help then. While anything of a higher priority is wanted, nothing new
	// is asked for of a lower one. A chunk that is on its way for another call is waited for, not
	// asked for twice. chunks are indices into the manifest's list, none of them of zeros. NotFound
	// means that nobody who was asked has one of them. When ctx ends, so does the call; what was on
	// its way may still arrive.
	Fetch(ctx context.Context, p Priority, chunks []int) error
	// Close ends what is under way, and waits for it: those calls of Fetch fail, and so do later
	// ones, with code Unavailable.
	Close() error
}

// Sessions is what a Source may be besides: one with a better way to get a blob than to be asked
// for one piece after the other.
type Sessions interface {
	// Session begins to get chunks of a blob. ctx is about beginning only.
	Session(ctx context.Context, manifest agentbox.Digest, m blob.Manifest, arrived Arrived) (Session, error)
}

// OpenSession returns the Session of a Source, which for one that has none of its own asks for
// piece by piece. manifest is the digest of m. ctx is about beginning only: the session lasts until
// Close.
func OpenSession(ctx context.Context, src Source, manifest agentbox.Digest, m blob.Manifest, arrived Arrived) (Session, error) {
	if s, ok := src.(Sessions); ok {
		return s.Session(ctx, manifest, m, arrived)
	}
	p := &polling{src: src, m: m, arrived: arrived, changed: make(chan struct{})}
	p.ctx, p.stop = context.WithCancelCause(context.Background())
	return p, nil
}

// polling is the Session of a Source that knows pieces only. ctx ends with Close, and with it
// everything under way, for which Close waits by way of calls.
type polling struct {
	src Source
	m   blob.Manifest
	// arrived is the receiver's.
	arrived Arrived
	ctx     context.Context
	stop    context.CancelCauseFunc
	calls   sync.WaitGroup
	flights flights[int] // chunks that somebody is getting

	// mu guards what follows.
	mu      sync.Mutex
	closed  bool
	wanting [Demand + 1]int // calls of Fetch, by priority
	changed chan struct{}   // closed, and made anew, when one of those ends
}

// pollers is how many chunks one call asks for at once: few, because a demand that comes has to
// wait for those under way, on the same link.
const pollers = 3

var errSessionClosed = agentbox.Errorf(agentbox.Unavailable, "nothing is fetched for this blob any more")

func (p *polling) Fetch(ctx context.Context, priority Priority, chunks []int) error {
	if !p.enter(priority) {
		return errSessionClosed
	}
	defer p.leave(priority)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pollers)
	for _, i := range chunks {
		group.Go(func() error {
			if err := p.turn(ctx, priority); err != nil {
				return err
			}
			return p.get(ctx, i)
		})
	}
	return group.Wait()
}

// enter counts a call of Fetch in, false when the session was closed. leave counts it out and wakes
// those that let it go first.
func (p *polling) enter(priority Priority) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.calls.Add(1)
	p.wanting[priority]++
	return true
}

func (p *polling) leave(priority Priority) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanting[priority]--
	close(p.changed)
	p.changed = make(chan struct{})
	p.calls.Done()
}

// turn returns when nothing of a higher priority is wanted, or with the error of ctx.
func (p *polling) turn(ctx context.Context, priority Priority) error {
	for {
		p.mu.Lock()
		higher, changed := 0, p.changed
		for q := priority + 1; q <= Demand; q++ {
			higher += p.wanting[q]
		}
		p.mu.Unlock()
		if higher == 0 {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// get gets chunk i and hands it on, once for all callers that want it at the same time.
func (p *polling) get(ctx context.Context, i int) error {
	_, err := p.flights.do(ctx, i, func() ([]byte, error) {
		c := p.m.Chunks[i]
		b, err := p.src.Get(ctx, c.Digest, c.Size)
		if err == nil {
			err = p.arrived(ctx, i, b)
		}
		return nil, err
	})
	return err
}

func (p *polling) Close() error {
	p.stop(errSessionClosed)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.calls.Wait()
	return nil
}
