package exchange

import (
	"context"
	"runtime"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// ChunkHandler gets the bytes of a chunk that a peer sent, and verifies them. An error of code
// Corrupt says that they are wrong: another peer is asked for the chunk. Any other error is the
// receiver's own, and ends the calls that want the chunk. It is called from several goroutines,
// never after Close, and may not keep the bytes. Once it has accepted a chunk, other peers may get
// it at once.
type ChunkHandler func(ctx context.Context, from PeerID, chunk int, b []byte) error

// Transfer gets the chunks of one blob from peers. Its methods may be called concurrently, Close
// more than once. work has run and the verifiers.
type Transfer struct {
	n       *Node
	b       *blobState
	arrived ChunkHandler
	// ctx ends with Close and with the Node.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	// closed is close, once.
	closed func()
	// pending are arrivals that are not verified yet. Close waits for them before it closes in, so
	// that no session sends into a closed channel.
	pending sync.WaitGroup
	began   time.Time
	// kick runs plan again.
	kick background.Signal
	// in passes pieces to the verifiers. It has a small buffer, so that readers continue while all
	// are busy.
	in chan<- arrival

	// Guarded by the Node's mu:
	state *schedule.State
	// slots are the sessions that are asked, by their place in state.
	slots [schedule.MaxPeers]*session
	// calls are the waiting Fetches.
	calls map[*call]bool
	// dialled is when each peer was last dialled, failed how often since it was last there, dialing
	// those that are being dialled now.
	dialled map[PeerID]time.Time
	failed  map[PeerID]int
	dialing map[PeerID]bool
	// changed is when the peers that are there last changed, and everConnected whether there ever
	// was one: waitedEnough depends on both.
	changed       time.Time
	everConnected bool
}

// call is one Fetch: left are the chunks that have not come, done gets its result.
type call struct {
	class schedule.Class
	began time.Time
	left  map[int]bool
	done  chan error
}

// arrival is a piece as it came.
type arrival struct {
	s  *session
	in *incoming
}

// Times of a transfer. Peers are looked for every discoverEvery. One that does not answer is
// left alone for retryFirst, then twice as long each time, up to retryLast.
const (
	discoverEvery = 500 * time.Millisecond
	retryFirst    = 250 * time.Millisecond
	retryLast     = 15 * time.Second
	// A mesh in which nobody answers delays the caller by no more than noPeerGrace; once a peer was
	// there, it gets longer.
	noPeerGrace = 250 * time.Millisecond
	peerGrace   = 1500 * time.Millisecond
)

// Begin starts to get a blob; m is its manifest. Nothing is requested before Fetch, but holders are
// connected. There is one Transfer of a blob at a time: a second one is Conflict. The caller closes
// it.
func (n *Node) Begin(manifest agentbox.Digest, m blob.Manifest, arrived ChunkHandler) (*Transfer, error) {
	bits, err := n.cfg.Store.Bitmap(m)
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
	if n.ctx.Err() != nil || b.transfer != nil {
		n.removeUnused(b)
		return nil, agentbox.Errorf(agentbox.Conflict, "%s is being got from peers already", manifest.Short())
	}
	in := make(chan arrival, 4)
	t := &Transfer{
		n: n, b: b, arrived: arrived, began: time.Now(), kick: background.NewSignal(), in: in,
		state: schedule.New(sizes, uint64(n.cfg.Self[0])<<8|uint64(n.cfg.Self[1])), calls: map[*call]bool{},
		dialled: map[PeerID]time.Time{}, failed: map[PeerID]int{}, dialing: map[PeerID]bool{}, changed: time.Now(),
	}
	t.closed = sync.OnceFunc(t.close)
	t.ctx, t.stop = context.WithCancel(n.ctx)
	b.transfer = t
	// Sessions that peers opened about it, or that brought its manifest, serve for this, too.
	fresh := !b.known
	b.setManifest(m, bits)
	for s := range b.sessions {
		if fresh {
			n.queue.Open(s, manifest, len(m.Chunks))
			s.announceBits()
		}
		if err := s.ready(); err != nil {
			n.drop(s, err)
		}
	}
	for range max(2, runtime.GOMAXPROCS(0)) {
		t.work.Go(func() { t.verifyAll(in) })
	}
	t.work.Go(t.run)
	return t, nil
}

func (t *Transfer) now() time.Duration { return time.Since(t.began) }

// Fetch gets chunks by their numbers in the manifest, none of them of zeros. It returns when all
// have arrived, or with an error; asking again may help then. NotFound names what no reachable peer
// has; any other error is the ChunkHandler's, ctx's, or that of a closed transfer (Unavailable). A
// chunk that several calls want comes once.
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
		// It is wanted now, so it is not here, whatever was said of it before: the store may have
		// evicted it.
		t.state.SetAbsent(i)
		c.left[i] = true
	}
	if len(c.left) == 0 {
		t.n.mu.Unlock()
		return nil
	}
	t.calls[c] = true
	t.state.Want(class, chunks)
	t.n.mu.Unlock()
	t.kick.Notify()
	defer t.forgetCall(c)
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.ctx.Done():
		return errClosed
	}
}

// forgetCall removes a call, and the chunks that nobody else wants.
func (t *Transfer) forgetCall(c *call) {
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

// Close ends the transfer, and waits until all of it has stopped. What is under way is dropped. The
// sessions stay for a while, for peers that want what came.
func (t *Transfer) Close() error {
	t.closed()
	return nil
}

func (t *Transfer) close() {
	t.stop()
	t.n.mu.Lock()
	for s := range t.b.sessions {
		t.leave(s)
		s.busy = time.Now()
	}
	t.b.transfer = nil
	t.n.totals = t.n.totals.Plus(t.state.Stats())
	t.n.removeUnused(t.b)
	t.n.mu.Unlock()
	t.pending.Wait()
	close(t.in)
	t.work.Wait()
}
