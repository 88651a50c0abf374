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

// session is one stream about one manifest. The Node's mu guards the fields that say nothing else.
// register adds it, run reads and writes until either end has enough, drop removes it. ctx ends
// with drop, which closes the stream.
type session struct {
	n      *Node
	peer   PeerID
	blob   *blobState
	stream Stream
	opener bool // we opened it
	ctx    context.Context
	cancel context.CancelCauseFunc

	// wake makes the writer look again.
	wake background.Signal
	// control has frames that wait to be written, before any piece.
	control []byte
	// haves are pieces that came since the peer was last told; one frame announces several.
	haves []int
	// out are the pieces that are being sent, one after the other.
	out          []*outgoing
	sentManifest bool // the manifest was sent

	// welcomed: the peer serves us, because it opened the session or has sent a welcome.
	welcomed bool
	// count and theirs are the number of pieces and the bitmap of those that the peer says it has;
	// theirs is nil until it has said so.
	count  int
	theirs bitmap
	// announced is closed when it has said so for the first time.
	announced chan struct{}
	// incoming are the answers that have begun, by request.
	incoming map[uint32]*incoming
	// manifest gets the manifest when it has come. It has room for one, as no more may come.
	manifest chan []byte
	// slot is its place among the transfer's peers, while joined.
	slot   schedule.Peer
	joined bool
	// began is when the session was made: it is waited for no longer than helloTimeout.
	began time.Time
	// busy is when either side last requested or sent a piece.
	busy time.Time
}

// outgoing is a piece being sent. From then on only the session's writer touches b.
type outgoing struct {
	id uint32
	// head is the frame that starts it, nil once it was sent.
	head  []byte
	b     []byte // what is left
	whole []byte // to be recycled; may be nil
	// cancelled makes the writer send that no more comes, instead of the rest.
	cancelled bool
	// moved is when bytes of it were last written, which decides whether it counts among the
	// uploads.
	moved time.Time
}

// incoming is a piece that is arriving. Only the session's reader touches b.
type incoming struct {
	head pieceHead
	b    []byte
	got  int
}

// Why sessions end, for the callers that asked by them and for logs. None is told to the peer.
var (
	errNotShared  = agentbox.Errorf(agentbox.NotFound, "the blob is not shared")
	errDuplicate  = agentbox.Errorf(agentbox.Conflict, "there is already a session with this peer for this blob")
	errWrongBytes = agentbox.Errorf(agentbox.Corrupt, "the peer sent wrong bytes")
	errIdle       = agentbox.Errorf(agentbox.Unavailable, "the session was idle")
	errTooMany    = agentbox.Errorf(agentbox.Unavailable, "too many sessions are open")
)

// maxControl bounds what waits to be sent to a peer that does not read, in bytes.
const maxControl = 1 << 20

// register adds a session to a manifest's, unless there is a better one (errDuplicate). opener: we
// opened it. It does not run yet. Where the peer has opened as many as it may, its new one replaces
// another of its own, so that it takes none from others.
func (n *Node) register(peer PeerID, stream Stream, d agentbox.Digest, opener bool) (*session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return nil, errClosed
	}
	if !opener {
		n.makeRoom(peer)
	}
	if n.countSessions() >= maxSessions {
		return nil, errTooMany
	}
	if old := n.find(d).sessionWith(peer); old != nil {
		// A peer that opens a second one has lost the first, for example because it restarted. When
		// both open one at the same time, that of the lower peer stays, at both ends.
		lower := string(n.cfg.Self[:]) < string(peer[:])
		if opener && old.opener || old.opener != opener && old.opener == lower {
			return nil, errDuplicate
		}
		n.drop(old, errDuplicate)
	}
	b := n.find(d) // again: drop forgets one whose last session it was
	s := &session{
		n: n, peer: peer, blob: b, stream: stream, opener: opener, wake: background.NewSignal(), incoming: map[uint32]*incoming{},
		manifest: make(chan []byte, 1), announced: make(chan struct{}), began: time.Now(), busy: time.Now(), welcomed: !opener,
	}
	s.ctx, s.cancel = context.WithCancelCause(n.ctx)
	b.sessions[s] = true
	return s, nil
}

// makeRoom ends a session that a peer opened, if the peer has opened maxPeerSessions: the one that
// was idle for longest, and one that a transfer of ours uses only if it uses all of them. The
// caller holds mu.
func (n *Node) makeRoom(peer PeerID) {
	count := 0
	var oldest *session
	for _, b := range n.blobs {
		s := b.sessionWith(peer)
		if s == nil || s.opener {
			continue
		}
		count++
		if oldest == nil || oldest.joined && !s.joined || oldest.joined == s.joined && s.busy.Before(oldest.busy) {
			oldest = s
		}
	}
	if count >= maxPeerSessions {
		n.drop(oldest, errTooMany)
	}
}

// drop removes a session and ends it. It may be called again. The caller holds mu.
func (n *Node) drop(s *session, why error) {
	if !s.blob.sessions[s] {
		return
	}
	delete(s.blob.sessions, s)
	n.queue.Close(s)
	if t := s.blob.transfer; t != nil {
		t.leave(s)
	}
	for _, o := range s.out {
		delete(n.sending, o)
	}
	s.cancel(why)
	n.removeUnused(s.blob)
	n.wakeUp.Notify() // others may be sent to instead
}

// end is drop for callers that do not hold mu.
func (s *session) end(why error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	s.n.drop(s, why)
}

// run serves the session until it ends, and returns when its reader and its writer have. The error
// is the first cause: why it was dropped, or the stream's error.
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

// push adds a frame to what is to be written. The caller holds mu.
func (s *session) push(t frameType, payload ...byte) {
	if len(s.control) > maxControl {
		s.n.drop(s, malformedPeer("it does not listen"))
		return
	}
	s.control = appendFrame(s.control, t, payload...)
	s.wake.Notify()
}

// malformedPeer is the error of a peer that exceeds its limits. It is no strike: the peer may be
// slow, or of another version.
func malformedPeer(why string) error { return agentbox.Errorf(agentbox.Unavailable, "a peer: %s", why) }

// announceHave announces that a piece is here. Several are announced at once. The caller holds mu.
func (s *session) announceHave(i int) {
	s.haves = append(s.haves, i)
	s.wake.Notify()
}

// announceBits announces what is here, once the manifest is known. The caller holds mu.
func (s *session) announceBits() {
	if b := s.blob; b.known {
		s.haves = nil
		s.push(frameBits, encodeBits(len(b.m.Chunks), b.bits)...)
	}
}

// ready adds the session to the transfer's, once both ends know the manifest and the peer has said
// what it has. It is called whenever one of these has happened. The caller holds mu.
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

// setHaves records which pieces the peer has. It may be called again, and replaces what was known.
// The caller holds mu.
func (s *session) setHaves(count int, bits []byte) error {
	if s.theirs == nil {
		close(s.announced)
	}
	s.count, s.theirs = count, bits
	if s.joined {
		s.blob.transfer.leave(s)
	}
	return s.ready()
}

// updateHaves records that a peer has, or has lost, pieces. The caller holds mu.
func (s *session) updateHaves(numbers []int, has bool) {
	for _, i := range numbers {
		s.theirs.put(i, has)
		if t := s.blob.transfer; t != nil && s.joined {
			t.state.Has(s.slot, i, has)
			t.kick.Notify()
		}
	}
}

// sendManifest sends the manifest itself, once: it has up to 17 MiB, and requesting it takes five
// bytes. The caller holds mu.
func (s *session) sendManifest() error {
	b := s.blob
	if s.sentManifest || !b.known {
		return malformedPeer("it asks for the manifest again")
	}
	s.sentManifest = true
	encoded := b.m.Encode()
	head := pieceHead{ID: manifestNumber, Number: manifestNumber, Encoding: blob.Plain, Size: uint32(len(encoded)), Stored: uint32(len(encoded))}
	s.out = append(s.out, &outgoing{id: manifestNumber, head: head.encode(), b: encoded, moved: time.Now()})
	s.wake.Notify()
	return nil
}

// idBytes is the payload of a frame that only names a request.
func idBytes(id uint32) []byte { return binary.BigEndian.AppendUint32(nil, id) }
