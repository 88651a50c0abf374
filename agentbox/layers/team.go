package layers

import (
	"context"
	"errors"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
	"agentbox/mesh/exchange/schedule"
	"agentbox/vmm/image"
)

// Team is the remote of images that peers have: as the `from` of an image, it means all members
// that have pieces of it.
const Team = "team"

// peerTimeout is how long peers may take to give a manifest that other remotes may have. Without
// other remotes peers may take as long as the caller waits.
const peerTimeout = 300 * time.Millisecond

func (p peerSource) manifest(ctx context.Context, d agentbox.Digest) ([]byte, error) {
	if len(p.remotes.order(p.first)) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, peerTimeout)
		defer cancel()
	}
	return p.remotes.peers().Manifest(ctx, d)
}

// peers is this machine's part in the mesh, nil without one.
func (r *Remotes) peers() *exchange.Node {
	if r.Peers == nil {
		return nil
	}
	return r.Peers()
}

// Session asks peers for chunks, and the remotes for what no peer has. It is what the store calls
// when it fetches many chunks. arrived is called for each chunk that came, from several goroutines;
// a wrong chunk is an error of arrived, and asked for elsewhere.
func (p peerSource) Session(ctx context.Context, manifest agentbox.Digest, m blob.Manifest, arrived cachestore.ChunkHandler) (cachestore.Session, error) {
	j := &combinedSession{asking: p, manifest: manifest, m: m, arrivedChunks: map[int]bool{}}
	j.arrived = func(ctx context.Context, from exchange.PeerID, i int, b []byte) error {
		err := arrived(ctx, i, b)
		if err == nil && j.note(i) { // two peers may have been asked for it
			p.received.add(image.Received{Peer: from.String()}, int64(len(b)))
		}
		return err
	}
	_, err := j.transfer()
	if err == nil {
		j.remotes, err = cachestore.OpenSession(ctx, pieceSource{p}, manifest, m, arrived)
	}
	if err != nil && j.peers != nil {
		err = errors.Join(err, j.peers.Close())
	}
	return j, err
}

// pieceSource is peerSource without peers and sessions: remotes know pieces only.
type pieceSource struct{ of peerSource }

// Get counts what a remote gave.
func (p pieceSource) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	b, remote, err := p.of.fromRemotes(ctx, d, max)
	if err == nil {
		p.of.received.add(image.Received{Remote: remote}, int64(len(b)))
	}
	return b, err
}

// combinedSession gets chunks from peers, and from remotes. Peers are asked first and remotes for
// what they do not have. Lock order: switching and mu are never held together.
type combinedSession struct {
	asking   peerSource
	manifest agentbox.Digest
	m        blob.Manifest
	arrived  exchange.ChunkHandler
	// remotes is the session with remotes, opened with the combinedSession and used when peers lack
	// chunks.
	remotes cachestore.Session

	switching sync.Mutex // held while peers is made anew
	node      *exchange.Node
	peers     *exchange.Transfer // nil without a mesh

	mu            sync.Mutex
	arrivedChunks map[int]bool // of what is being got
}

// scheduleClass is how the scheduler calls a priority. The scheduler's classes have the order of
// the store's priorities, so one is the other with an offset.
func scheduleClass(p cachestore.Priority) schedule.Class { return schedule.Class(p) + schedule.Rest }

// transfer is what gets the blob from peers, nil without a mesh. A machine may leave its team, and
// join one, while a box reads: then it is made anew.
func (c *combinedSession) transfer() (*exchange.Transfer, error) {
	c.switching.Lock()
	defer c.switching.Unlock()
	node := c.asking.remotes.peers()
	if node == c.node && (c.peers != nil || node == nil) {
		return c.peers, nil
	}
	var err error
	if c.peers != nil {
		err = c.peers.Close()
	}
	c.node, c.peers = node, nil
	if node == nil || err != nil {
		return nil, err
	}
	t, err := node.Begin(c.manifest, c.m, c.arrived)
	if code := agentbox.CodeOf(err); err != nil && (code == agentbox.Conflict || code == agentbox.Unavailable) {
		return nil, nil // somebody else gets it, or we have just left
	}
	c.peers = t
	return t, err
}

// Fetch returns when every chunk has arrived, or one cannot be had. That peers do not have all of
// them is found out by asking: the rest is asked of the remotes, whose error is then the one that
// counts.
func (c *combinedSession) Fetch(ctx context.Context, p cachestore.Priority, chunks []int) error {
	peers, err := c.transfer()
	if err != nil {
		return err
	}
	if peers == nil {
		return c.remotes.Fetch(ctx, p, chunks)
	}
	// What did not come by the time that peers give up is known from here on.
	c.expect(chunks)
	err = peers.Fetch(ctx, scheduleClass(p), chunks)
	if code := agentbox.CodeOf(err); err == nil || ctx.Err() != nil || code != agentbox.NotFound && code != agentbox.Unavailable {
		return err
	}
	left := c.missing(chunks)
	if len(c.asking.remotes.order(c.asking.first)) == 0 {
		return err
	}
	if remoteErr := c.remotes.Fetch(ctx, p, left); remoteErr != nil {
		return remoteErr
	}
	return nil
}

// note records that a chunk came, and reports whether it is the first time.
func (c *combinedSession) note(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.arrivedChunks[i]
	c.arrivedChunks[i] = true
	return first
}

// expect forgets that chunks came: they may have been lost since.
func (c *combinedSession) expect(chunks []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range chunks {
		delete(c.arrivedChunks, i)
	}
}

// missing is those of the chunks that did not come.
func (c *combinedSession) missing(chunks []int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []int
	for _, i := range chunks {
		if !c.arrivedChunks[i] {
			out = append(out, i)
		}
	}
	return out
}

// Close ends both sessions, and returns when nothing arrives any more.
func (c *combinedSession) Close() error {
	err := c.remotes.Close()
	c.switching.Lock()
	defer c.switching.Unlock()
	if c.peers != nil {
		err = errors.Join(err, c.peers.Close())
	}
	return err
}
