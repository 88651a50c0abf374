package cachestore

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// Priority orders the requests of a Session, so that chunks for which somebody waits come first.
type Priority int

// The priorities, the lowest first.
const (
	Bulk   Priority = iota // in the order that is best for all who want the blob
	Soon                   // will be needed, roughly in this order
	Demand                 // somebody waits for it
)

// ChunkHandler receives the bytes of a chunk. It is called from several goroutines, but at most
// once at a time for a chunk, and not after Close has returned. b is valid during the call only. An
// error of code Corrupt means that the bytes are not those of the chunk: the Session gets them
// elsewhere or fails. Any other error is the receiver's own, such as a full disk, and fails the
// calls that want the chunk.
type ChunkHandler func(ctx context.Context, chunk int, b []byte) error

// Session gets the chunks of one blob from a Source. Its methods are safe for concurrent use; the
// caller of OpenSession closes it, once. Each implementation must pass storetest.TestSession.
// mesh/exchange has the one that fetches from many peers.
type Session interface {
	// Fetch requests chunks. It returns when all have arrived, each once, or with the first error;
	// a retry may succeed then. While there are calls of a higher priority, it requests nothing new
	// for a lower one. For a chunk that is on its way for another call, it waits instead of
	// requesting it again. chunks are indices into the manifest's list, none of them of zeros.
	// NotFound means that nobody who was asked has one of them. The call ends when ctx does; chunks
	// on their way may still arrive.
	Fetch(ctx context.Context, p Priority, chunks []int) error
	// Close cancels what is under way and waits for it. The calls of Fetch that are under way fail,
	// and so do later ones, with code Unavailable.
	Close() error
}

// Sessions is an optional ability of a Source: a better way to get a blob than one piece after the
// other.
type Sessions interface {
	// Session starts to get chunks of a blob. ctx bounds the start only.
	Session(ctx context.Context, manifest agentbox.Digest, m blob.Manifest, arrived ChunkHandler) (Session, error)
}

// OpenSession returns the Session of a Source. If the Source is no Sessions, the Session requests
// one piece after the other. manifest is the digest of m. ctx bounds the start only: the session
// lasts until Close.
func OpenSession(ctx context.Context, src Source, manifest agentbox.Digest, m blob.Manifest, arrived ChunkHandler) (Session, error) {
	if s, ok := src.(Sessions); ok {
		return s.Session(ctx, manifest, m, arrived)
	}
	p := &pollingSession{src: src, m: m, arrived: arrived, changed: make(chan struct{})}
	p.ctx, p.stop = context.WithCancelCause(context.Background())
	return p, nil
}

// pollingSession is the Session of a Source that only returns pieces. Close cancels ctx, and with
// it everything under way, and then waits for calls.
type pollingSession struct {
	src     Source
	m       blob.Manifest
	arrived ChunkHandler
	ctx     context.Context
	stop    context.CancelCauseFunc
	calls   sync.WaitGroup
	flights flights[int] // chunks that are being fetched

	// mu guards the fields below it.
	mu      sync.Mutex
	closed  bool
	wanting [Demand + 1]int // calls of Fetch, by priority
	changed chan struct{}   // closed and replaced when one of those ends
}

// pollers is how many chunks one call requests at once. It is small, because a new demand has to
// wait for those under way on the same link.
const pollers = 3

var errSessionClosed = agentbox.Errorf(agentbox.Unavailable, "the transfer of this blob is closed")

func (p *pollingSession) Fetch(ctx context.Context, priority Priority, chunks []int) error {
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
			if err := p.waitTurn(ctx, priority); err != nil {
				return err
			}
			return p.get(ctx, i)
		})
	}
	return group.Wait()
}

// enter registers a call of Fetch; it returns false when the session is closed. leave removes the
// call and wakes the calls of a lower priority.
func (p *pollingSession) enter(priority Priority) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.calls.Add(1)
	p.wanting[priority]++
	return true
}

func (p *pollingSession) leave(priority Priority) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanting[priority]--
	close(p.changed)
	p.changed = make(chan struct{})
	p.calls.Done()
}

// waitTurn waits until nothing of a higher priority is wanted, or ctx ends.
func (p *pollingSession) waitTurn(ctx context.Context, priority Priority) error {
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

// get gets chunk i and passes it to arrived, once for all concurrent callers.
func (p *pollingSession) get(ctx context.Context, i int) error {
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

func (p *pollingSession) Close() error {
	p.stop(errSessionClosed)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.calls.Wait()
	return nil
}
