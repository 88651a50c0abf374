package exchange

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// session is one stream about one manifest. What is not said otherwise is guarded by the Node's mu.
// Its life: register puts it into the books, run reads and writes until either end has enough, drop
// takes it out. ctx ends with drop, which closes the stream.
type session struct {
	n      *Node
	peer   PeerID
	blob   *shared
	stream Stream
	opener bool // we opened it
	ctx    context.Context
	cancel context.CancelCauseFunc

	// wake has the writer look again.
	wake background.Signal
	// control has frames that wait to be written, before any piece.
	control []byte
	// haves are pieces that came since the peer was last told; several are told in one frame.
	haves []int
	// out are the pieces that are being sent, one after the other.
	out      []*outgoing
	gaveSelf bool // the manifest was sent

	// welcomed says that the peer serves us: it opened the session, or has said welcome.
	welcomed bool
	// count and theirs are what the peer says that it has: pieces in all, and their bitmap, nil as
	// long as it has not said.
	count  int
	theirs bitmap
	// said is closed when it has said that for the first time.
	said chan struct{}
	// incoming are the answers that have begun, by request.
	incoming map[uint32]*incoming
	// self gets the manifest when it came. It has room for one, which is all that may come.
	self chan []byte
	// slot is where it is among the transfer's peers, while joined.
	slot   schedule.Peer
	joined bool
	// began is when the session was made: it is waited for no longer than helloTime.
	began time.Time
	// busy is when a piece was last asked for or sent, by either side.
	busy time.Time
}

// outgoing is a piece that is being sent. Only the session's writer touches b once it has been
// taken on.
type outgoing struct {
	s  *session
	id uint32
	// head is the frame that begins it, nil once it was sent.
	head  []byte
	b     []byte // what is left
	whole []byte // to be recycled; may be nil
	// cancelled has the writer say that no more comes, instead of the rest.
	cancelled bool
	// moved is when bytes of it were last written, by which it counts among the uploads.
	moved time.Time
}

// incoming is a piece that comes. Only the session's reader touches b.
type incoming struct {
	head pieceHead
	b    []byte
	got  int
}

// Why sessions end, for the callers that asked by them and for logs. None is told to the peer.
var (
	errNotShared = agentbox.Errorf(agentbox.NotFound, "the blob is not shared")
	errTwice     = agentbox.Errorf(agentbox.Conflict, "there is a session with this peer about the same blob")
	errLied      = agentbox.Errorf(agentbox.Corrupt, "the peer sent wrong bytes")
	errIdle      = agentbox.Errorf(agentbox.Unavailable, "nobody needed the session")
)

// maxControl bounds what waits to be told to a peer that does not listen, in bytes.
const maxControl = 1 << 20

// register makes a session one of a manifest's, unless there is a better one. opener says that we
// opened it. The session is not run yet.
func (n *Node) register(peer PeerID, stream Stream, d agentbox.Digest, opener bool) (*session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil || n.countSessions() >= maxSessions {
		return nil, errClosed
	}
	if old := n.find(d).sessionWith(peer); old != nil {
		// A peer that opens a second one has lost the first: it was started anew, say. When both
		// open one at the same time, that of the lower peer stays, at both ends.
		lower := string(n.cfg.Self[:]) < string(peer[:])
		if opener && old.opener || old.opener != opener && old.opener == lower {
			return nil, errTwice
		}
		n.drop(old, errTwice)
	}
	b := n.find(d) // anew: drop forgets one whose last session it was
	s := &session{
		n: n, peer: peer, blob: b, stream: stream, opener: opener, wake: background.NewSignal(), incoming: map[uint32]*incoming{},
		self: make(chan []byte, 1), said: make(chan struct{}), began: time.Now(), busy: time.Now(), welcomed: !opener,
	}
	s.ctx, s.cancel = context.WithCancelCause(n.ctx)
	b.sessions[s] = true
	return s, nil
}

// drop takes a session out of the books and ends it; it may be called again. Callers hold mu.
func (n *Node) drop(s *session, why error) {
	if !s.blob.sessions[s] {
		return
	}
	delete(s.blob.sessions, s)
	n.queue.Close(s)
	if t := s.blob.transfer; t != nil {
		t.left(s)
	}
	for _, o := range s.out {
		delete(n.sending, o)
	}
	s.cancel(why)
	n.tidy(s.blob)
	n.wakeUp.Notify() // others may be sent to instead
}

// end is drop for callers that do not hold mu.
func (s *session) end(why error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	s.n.drop(s, why)
}

// run serves the session until it ends, and returns when its reader and its writer have. The error
// is the first cause: why it was dropped, or what the stream said.
func (s *session) run() error {
	stop := context.AfterFunc(s.ctx, func() { s.stream.Close() })
	defer stop()
	written := make(chan error, 1)
	go func() {
		err := s.write()
		s.end(err) // which ends the reader
		written <- err
	}()
	err := s.read()
	if agentbox.CodeOf(err) == agentbox.Corrupt {
		s.n.mu.Lock()
		s.n.strike(s.peer)
		s.n.mu.Unlock()
	}
	s.end(err)
	if writeErr := <-written; errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = writeErr
	}
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	}
	return errors.Join(err, s.stream.Close())
}

// push adds a frame to what is to be written. Callers hold mu.
func (s *session) push(t frameType, payload ...byte) {
	if len(s.control) > maxControl {
		s.n.drop(s, malformedPeer("it does not listen"))
		return
	}
	s.control = appendFrame(s.control, t, payload...)
	s.wake.Notify()
}

// malformedPeer is the error of a peer that is beyond its limits, which is no strike: it may be
// slow, or of another version.
func malformedPeer(why string) error { return agentbox.Errorf(agentbox.Unavailable, "a peer: %s", why) }

// tellHave says that a piece is here. Several are told at once. Callers hold mu.
func (s *session) tellHave(i int) {
	s.haves = append(s.haves, i)
	s.wake.Notify()
}

// tellBits says what is here, when that can be said. Callers hold mu.
func (s *session) tellBits() {
	if b := s.blob; b.known {
		s.haves = nil
		s.push(frameBits, encodeBits(len(b.m.Chunks), b.bits)...)
	}
}

// ready makes the session one of the transfer's, when both ends know the manifest and the peer has
// said what it has. It is called whenever one of these has come to pass. Callers hold mu.
func (s *session) ready() error {
	b := s.blob
	if !b.known {
		return nil
	}
	if s.theirs != nil && s.count != len(b.m.Chunks) {
		return malformed("%d pieces of a manifest of %d", s.count, len(b.m.Chunks))
	}
	if t := b.transfer; t != nil && s.welcomed && s.theirs != nil {
		t.join(s)
	}
	return nil
}

// take notes what the peer said it has. It may say so again: then it begins anew. Callers hold mu.
func (s *session) take(count int, bits []byte) error {
	if s.theirs == nil {
		close(s.said)
	}
	s.count, s.theirs = count, bits
	if s.joined {
		s.blob.transfer.left(s)
	}
	return s.ready()
}

// change notes that a peer has, or has lost, pieces. Callers hold mu.
func (s *session) change(numbers []int, has bool) {
	for _, i := range numbers {
		s.theirs.put(i, has)
		if t := s.blob.transfer; t != nil && s.joined {
			t.state.Has(s.slot, i, has)
			t.kick.Notify()
		}
	}
}

// giveManifest sends the manifest itself, once: it is up to 17 MiB, and asking for it costs five
// bytes. Callers hold mu.
func (s *session) giveManifest() error {
	b := s.blob
	if s.gaveSelf || !b.known {
		return malformedPeer("it asks for the manifest again")
	}
	s.gaveSelf = true
	encoded := b.m.Encode()
	head := pieceHead{ID: wholeManifest, Number: wholeManifest, Encoding: blob.Plain, Size: uint32(len(encoded)), Stored: uint32(len(encoded))}
	s.out = append(s.out, &outgoing{s: s, id: wholeManifest, head: head.encode(), b: encoded, moved: time.Now()})
	s.wake.Notify()
	return nil
}

// idBytes is the payload of a frame that only names a request.
func idBytes(id uint32) []byte { return binary.BigEndian.AppendUint32(nil, id) }
