package exchange

import (
	"context"
	"runtime"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// Arrived takes the bytes of a chunk, which a peer sent, and verifies them. An error of code
// Corrupt says that they are wrong: the chunk comes from another peer. Any other is the receiver's
// own, and ends the calls that want the chunk. It is called from several goroutines, never after
// Close, and may not keep the bytes.
type Arrived func(ctx context.Context, from PeerID, chunk int, b []byte) error

// Transfer gets the chunks of one blob from peers. Its methods may be called at once.
type Transfer struct {
	n       *Node
	b       *shared
	arrived Arrived
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	pending sync.WaitGroup // arrivals that were not judged yet
	began   time.Time
	kick    chan struct{}
	in      chan<- arrival // nil: closed

	// Guarded by the Node's mu:
	state   *schedule.State
	slots   [schedule.MaxPeers]*session
	calls   map[*call]bool
	tried   map[PeerID]time.Time
	failed  map[PeerID]int  // dials since it last was there
	dialing map[PeerID]bool // now
	changed time.Time       // when who is there last changed
	met     bool            // somebody was
}

// call is one Fetch.
type call struct {
	class schedule.Class
	began time.Time
	left  map[int]bool
	done  chan error
}

// arrival is a piece as it came.
type arrival struct {
	s    *session
	slot schedule.Peer
	in   *incoming
}

// Times of a transfer.
const (
	discoverEvery = 500 * time.Millisecond
	retryFirst    = 250 * time.Millisecond
	retryLast     = 15 * time.Second
	// A mesh in which nobody answers costs who asks no more than graceAlone; one that was there is
	// given longer.
	graceAlone = 250 * time.Millisecond
	graceMet   = 1500 * time.Millisecond
)

// Begin starts to get a blob. There is one Transfer of a blob at a time.
func (n *Node) Begin(manifest agentbox.Digest, m blob.Manifest, arrived Arrived) (*Transfer, error) {
	bits, err := n.cfg.Store.Bits(m)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(m.Chunks))
	for i, c := range m.Chunks {
		sizes[i] = c.Size
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.find(manifest)
	if n.closed || b.transfer != nil {
		n.tidy(b)
		return nil, agentbox.Errorf(agentbox.Conflict, "%s is being got from peers already", manifest.Short())
	}
	in := make(chan arrival, 4)
	t := &Transfer{
		n: n, b: b, arrived: arrived, began: time.Now(), kick: make(chan struct{}, 1), in: in,
		state: schedule.New(sizes, uint64(n.cfg.Self[0])<<8|uint64(n.cfg.Self[1])), calls: map[*call]bool{},
		tried: map[PeerID]time.Time{}, failed: map[PeerID]int{}, dialing: map[PeerID]bool{}, changed: time.Now(),
	}
	t.ctx, t.stop = context.WithCancel(n.ctx)
	b.transfer = t
	fresh := !b.known
	b.know(m, bits)
	for s := range b.sessions {
		if fresh {
			n.queue.Open(s, manifest, len(m.Chunks))
			s.tellBits()
		}
		if err := s.ready(); err != nil {
			n.drop(s, err)
		}
	}
	for range max(2, runtime.GOMAXPROCS(0)) {
		t.work.Go(func() { t.judge(in) })
	}
	t.work.Go(t.run)
	return t, nil
}

func (t *Transfer) now() time.Duration { return time.Since(t.began) }

func (t *Transfer) poke() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// Fetch has chunks arrive, and returns when all have or with an error; asking again may help then.
// NotFound names what no peer has that can be reached.
func (t *Transfer) Fetch(ctx context.Context, class schedule.Class, chunks []int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &call{class: class, began: time.Now(), left: map[int]bool{}, done: make(chan error, 1)}
	t.n.mu.Lock()
	if t.ctx.Err() != nil {
		t.n.mu.Unlock()
		return errClosed
	}
	for _, i := range chunks {
		t.state.Gone(i)
		c.left[i] = true
	}
	if len(c.left) == 0 {
		t.n.mu.Unlock()
		return nil
	}
	t.calls[c] = true
	t.state.Want(class, chunks)
	t.n.mu.Unlock()
	t.poke()
	defer t.forget(c)
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.ctx.Done():
		return errClosed
	}
}

// forget drops a call, and what nobody else wants with it.
func (t *Transfer) forget(c *call) {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	delete(t.calls, c)
	var unwanted []int
	for i := range c.left {
		wanted := false
		for other := range t.calls {
			wanted = wanted || other.left[i]
		}
		if !wanted {
			unwanted = append(unwanted, i)
		}
	}
	t.state.Unwant(unwanted)
}

// Close ends the transfer. What is under way is dropped. The sessions stay for a while, for those
// who want what came.
func (t *Transfer) Close() error {
	t.stop()
	t.n.mu.Lock()
	if t.b.transfer == t {
		for s := range t.b.sessions {
			t.left(s)
			s.busy = time.Now()
		}
		t.b.transfer = nil
		t.n.totals = t.n.totals.Plus(t.state.Stats())
		t.n.tidy(t.b)
	}
	t.n.mu.Unlock()
	t.pending.Wait()
	t.n.mu.Lock()
	if t.in != nil {
		close(t.in)
		t.in = nil
	}
	t.n.mu.Unlock()
	t.work.Wait()
	return nil
}

// Stats tells what the scheduler did.
func (t *Transfer) Stats() schedule.Stats {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	return t.state.Stats()
}
