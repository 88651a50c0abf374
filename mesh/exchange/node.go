package exchange

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
	"agentbox/mesh/identity"
)

// PeerID names a peer.
type PeerID = identity.PeerID

// Stream is an ordered, reliable, bidirectional byte stream to a peer that proved who it is: of
// QUIC (mesh/wire), or a net.Conn. One goroutine reads, another writes, and any may close it.
type Stream interface {
	io.Reader
	io.Writer
	// Close ends both directions, at once.
	Close() error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Network opens streams to peers. It proves which peer answers.
type Network interface {
	Open(ctx context.Context, peer PeerID) (Stream, error)
}

// Holders lists who has some of a blob, as far as is known here; the catalogue implements it. It
// may be wrong: what counts is what a peer says that it has.
type Holders interface {
	Holders(manifest agentbox.Digest) []PeerID
}

// Store is what this machine has. Its methods may be called concurrently.
type Store interface {
	// Shared reports whether a peer may have a blob.
	Shared(ctx context.Context, peer PeerID, manifest agentbox.Digest) bool
	// Manifest returns a manifest that is here.
	Manifest(ctx context.Context, manifest agentbox.Digest) (blob.Manifest, error)
	// Bitmap returns which chunks are here: bit i%8 of byte i/8, the lowest first. Chunks of zeros
	// count as here.
	Bitmap(m blob.Manifest) ([]byte, error)
	// ReadStored returns a chunk as it is stored, and its decoded size. buf may be used for the
	// result.
	ReadStored(ctx context.Context, chunk agentbox.Digest, buf []byte) (b []byte, encoding blob.Encoding, size int, err error)
}

// Config is what a Node needs. All but Upload and Log is required.
type Config struct {
	// Self is this machine, which never asks itself.
	Self    PeerID
	Network Network
	Holders Holders
	Store   Store
	// Upload limits the bytes sent per second to all peers together; 0 for no limit.
	Upload int64
	Log    *slog.Logger
}

// Node takes part in the exchange. Its methods may be called concurrently. work has the uploader,
// the sessions that we opened, and everything else that Close waits for.
type Node struct {
	cfg Config
	// codec decodes what arrives; limit paces what is sent, nil for no limit.
	codec  *blob.Codec
	limit  *rate.Limiter
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
	wakeUp background.Signal // something may be sent
	// asking shares one answer among concurrent calls of Manifest for one digest.
	asking singleflight.Group

	// mu guards the fields below, and every blobState, session and Transfer: a peer's messages
	// concern all of them, and none of it takes long.
	mu sync.Mutex
	// blobs are the manifests with a session or a transfer.
	blobs map[agentbox.Digest]*blobState
	// queue has the requests to us of all sessions.
	queue *schedule.Queue[*session, agentbox.Digest]
	// banned has the peers that are not asked, and until when.
	banned map[PeerID]time.Time
	// strikes counts the offences of each peer since its last ban.
	strikes map[PeerID]int
	// sending has the pieces on their way out, of all sessions.
	sending map[*outgoing]bool
	// traffic has the account of each peer (Traffic).
	traffic map[PeerID]*Traffic
	totals  schedule.Stats // of transfers that have ended
}

// blobState is a manifest with sessions or a transfer; without either it is removed (removeUnused).
type blobState struct {
	digest agentbox.Digest
	m      blob.Manifest // once it is known
	// known says that m and bits are set.
	known   bool
	encoded []byte // the manifest, where a peer sent it
	// bits says which chunks are here, as Store.Bitmap does. It is updated as they come and are
	// found missing.
	bits bitmap
	// sessions has at most one for each peer (register).
	sessions map[*session]bool
	transfer *Transfer // nil: nothing of it is wanted here
	// welcome: a peer serves it to us, so the team may have it. What just comes from the team is
	// passed on before the store has a name for it.
	welcome bool
	// otherPeers are said to have sessions about it; the transfer connects to them.
	otherPeers []PeerID
}

// Limits of a Node. maxSessions bounds memory and streams of all peers, maxPeerSessions what one of
// them opens. banDuration is how long a peer that sent wrong bytes is not asked. A peer whose piece
// has not moved for stuckAfter does not count among the uploads, so slow receivers hold up nobody,
// but there are at most maxStuck of them. docs/internals/benchmarks.md has the reason for uploads.
const (
	maxSessions     = 512
	maxPeerSessions = 64 // an eighth, so that no few peers keep out the others
	banDuration     = 10 * time.Minute
	idleTimeout     = 30 * time.Second
	helloTimeout    = 10 * time.Second
	writeTimeout    = 30 * time.Second // without a byte taken, and the session ends
	uploads         = 8                // pieces that are sent at once, to different peers if possible
	sessionUploads  = 2                // that one session has: the next is read while one is sent
	stuckAfter      = 400 * time.Millisecond
	maxStuck        = 48
)

// New starts a Node. It serves the streams given to Serve until Close, which the caller calls.
func New(cfg Config) (*Node, error) {
	codec, err := blob.NewCodec()
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		cfg: cfg, codec: codec, wakeUp: background.NewSignal(), blobs: map[agentbox.Digest]*blobState{},
		queue: schedule.NewQueue[*session, agentbox.Digest](), banned: map[PeerID]time.Time{}, strikes: map[PeerID]int{}, traffic: map[PeerID]*Traffic{}, sending: map[*outgoing]bool{},
	}
	if cfg.Upload > 0 {
		n.limit = rate.NewLimiter(rate.Limit(cfg.Upload), dataSize+headerSize+4)
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.work.Go(n.upload)
	return n, nil
}

// Close ends all sessions and transfers, and waits for the sessions that this Node opened. Those
// that peers opened have ended when the calls of Serve return, and a Transfer when its caller has
// closed it.
func (n *Node) Close() error {
	n.mu.Lock()
	n.stop() // nothing more begins
	n.mu.Unlock()
	n.work.Wait()
	return nil
}

// errClosed is the error of anything that starts after Close.
var errClosed = agentbox.Errorf(agentbox.Unavailable, "this machine's part in the mesh has ended")

// Recheck ends the sessions about blobs that are not shared any more. It is called when sharing or
// membership has changed.
func (n *Node) Recheck(ctx context.Context) {
	n.mu.Lock()
	var all []*session
	for _, b := range n.blobs {
		for s := range b.sessions {
			all = append(all, s)
		}
	}
	n.mu.Unlock()
	for _, s := range all {
		if !n.mayServe(ctx, s.peer, s.blob.digest) {
			s.end(errNotShared)
		}
	}
}

// mayServe says what peers may have: what is shared, and what just comes from the team.
func (n *Node) mayServe(ctx context.Context, peer PeerID, d agentbox.Digest) bool {
	n.mu.Lock()
	b := n.blobs[d]
	fromTeam := b != nil && b.transfer != nil && b.welcome
	n.mu.Unlock()
	return fromTeam || n.cfg.Store.Shared(ctx, peer, d)
}

// find returns the state of a manifest, and makes it if need be: tidy removes it if nothing comes
// of it. The caller holds mu.
func (n *Node) find(d agentbox.Digest) *blobState {
	b := n.blobs[d]
	if b == nil {
		b = &blobState{digest: d, sessions: map[*session]bool{}}
		n.blobs[d] = b
	}
	return b
}

// removeUnused removes a manifest without sessions and transfer. The caller holds mu.
func (n *Node) removeUnused(b *blobState) {
	if len(b.sessions) == 0 && b.transfer == nil && n.blobs[b.digest] == b {
		delete(n.blobs, b.digest)
	}
}

// setManifest sets the manifest and what is here, or adds to that. The caller holds mu.
func (b *blobState) setManifest(m blob.Manifest, bits []byte) {
	b.m, b.known = m, true
	if b.bits == nil {
		b.bits = bits
		return
	}
	for i := range bits {
		b.bits[i] |= bits[i]
	}
}

// bitmap is a set of chunks: bit i%8 of byte i/8, the lowest first.
type bitmap []byte

// has is false for a chunk beyond the end.
func (b bitmap) has(i int) bool { return i/8 < len(b) && b[i/8]&(1<<(i%8)) != 0 }

func (b bitmap) put(i int, is bool) {
	if is {
		b[i/8] |= 1 << (i % 8)
	} else {
		b[i/8] &^= 1 << (i % 8)
	}
}

// Traffic is what was exchanged with a peer since this Node started.
type Traffic struct {
	Sent     int64 `json:"sent"`     // bytes of pieces
	Received int64 `json:"received"` // that were right
	Wrong    int   `json:"wrong"`    // pieces
}

// Traffic returns what was exchanged with each peer, whether or not it is here now.
func (n *Node) Traffic() map[PeerID]Traffic {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[PeerID]Traffic, len(n.traffic))
	for p, t := range n.traffic {
		out[p] = *t
	}
	return out
}

// Stats adds up what the scheduler did in all transfers since this Node started.
func (n *Node) Stats() schedule.Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := n.totals
	for _, b := range n.blobs {
		if b.transfer != nil {
			sum = sum.Plus(b.transfer.state.Stats())
		}
	}
	return sum
}

// trafficOf is the account of a peer. The caller holds mu.
func (n *Node) trafficOf(p PeerID) *Traffic {
	t := n.traffic[p]
	if t == nil {
		t = &Traffic{}
		n.traffic[p] = t
	}
	return t
}

// Sessions counts the open ones.
func (n *Node) Sessions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.countSessions()
}

func (n *Node) countSessions() int {
	count := 0
	for _, b := range n.blobs {
		count += len(b.sessions)
	}
	return count
}

// strike records that a peer sent wrong bytes or frames. Once may be a failing disk of its own. The
// second time it is banned: it is not asked for a while, but still served in sessions that it
// opens. The caller holds mu.
func (n *Node) strike(p PeerID) {
	if n.strikes[p]++; n.strikes[p] < 2 {
		return
	}
	delete(n.strikes, p)
	n.banned[p] = time.Now().Add(banDuration)
	n.cfg.Log.Warn("a peer sends wrong bytes: it is not asked any more", "peer", p.Short(), "until", n.banned[p])
	for _, b := range n.blobs {
		for s := range b.sessions {
			if s.peer == p && b.transfer != nil {
				n.drop(s, errWrongBytes)
			}
		}
	}
}

// isBanned reports whether a peer is not to be asked now.
func (n *Node) isBanned(p PeerID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Before(n.banned[p])
}
