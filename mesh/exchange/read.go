package exchange

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// read takes frames until the stream ends or one is malformed. It is the session's only reader.
// Data goes straight into its piece's buffer, without mu, so that a peer whose bytes come slowly
// holds up nobody else; everything else is small and goes through frame. The error is why the
// session ends.
func (s *session) read() error {
	var header [headerSize]byte
	for {
		t, size, err := readHeader(s.stream, &header)
		if err != nil {
			return err
		}
		switch {
		case t == frameData:
			err = s.readData(size)
		case !t.known():
			_, err = io.CopyN(io.Discard, s.stream, int64(size))
		default:
			payload := make([]byte, size)
			if _, err = io.ReadFull(s.stream, payload); err == nil {
				err = s.frame(t, payload)
			}
		}
		if err != nil {
			return err
		}
	}
}

// frame handles a frame of a known type; its error ends the session. The default is framePeers.
func (s *session) frame(t frameType, b []byte) error {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	// The session has been dropped: nothing from it may count any more.
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	switch t {
	case frameWelcome:
		return s.welcome()
	case frameBits:
		count, bits, err := decodeBits(b)
		if err != nil {
			return err
		}
		return s.setHaves(count, bits)
	case frameHave, frameLost:
		numbers, err := decodeNumbers(b, s.count)
		if err == nil {
			s.updateHaves(numbers, t == frameHave)
		}
		return err
	case frameRequest, frameCancel, frameManifest:
		return s.onRequest(t, b)
	case framePiece:
		return s.onPiece(b)
	case frameNone:
		return s.onNone(b)
	}
	peers, err := decodePeers(b)
	if err == nil {
		s.blob.addPeers(peers)
	}
	return err
}

// welcome records that the peer serves the manifest to us. The caller holds mu.
func (s *session) welcome() error {
	if s.welcomed {
		return malformed("a second welcome")
	}
	s.welcomed, s.blob.welcome = true, true
	return s.ready()
}

// onRequest handles a peer's request. A peer that requests too much at once loses the session; that
// is no strike. The caller holds mu.
func (s *session) onRequest(t frameType, b []byte) error {
	s.busy = time.Now()
	switch t {
	case frameManifest:
		return s.sendManifest()
	case frameCancel:
		id, err := decodeID(b)
		if err == nil {
			s.n.queue.Cancel(s, id)
			for _, o := range s.out {
				o.cancelled = o.cancelled || o.id == id
			}
		}
		return err
	}
	if !s.blob.known {
		return malformed("a request before there is a manifest")
	}
	r, err := decodeRequest(b, len(s.blob.m.Chunks))
	if err != nil {
		return err
	}
	if !s.n.queue.Push(s, r.id, r.class, r.pieces) {
		return malformedPeer("it asks for too much at once")
	}
	s.n.wakeUp.Notify()
	return nil
}

// onPiece handles the head of a piece. It answers one of our requests, or one that was
// cancelled while the answer was on its way, which is no fault of the peer's. A buffer is allocated
// only for what was requested, of the size that the manifest says or less, as the head is only the
// peer's claim. The caller holds mu.
func (s *session) onPiece(b []byte) error {
	head, err := decodePiece(b)
	if err != nil {
		return err
	}
	if len(s.incoming) >= schedule.MaxQueued || s.incoming[head.ID] != nil {
		return malformed("a piece that was not asked for")
	}
	if head.Number == manifestNumber {
		if head.ID != manifestNumber || s.blob.known {
			return malformed("a manifest that was not asked for")
		}
		s.incoming[head.ID] = &incoming{head: head, b: make([]byte, 0, min(int(head.Stored), 1<<20))}
		return nil
	}
	t := s.blob.transfer
	if t == nil || !s.joined || !t.state.Picked(t.now(), s.slot, schedule.RequestID(head.ID), int(head.Number)) {
		return nil // cancelled meanwhile: what comes is passed over
	}
	if int(head.Size) != t.b.m.Chunks[head.Number].Size {
		return malformed("piece %d has %d bytes, not %d", head.Number, t.b.m.Chunks[head.Number].Size, head.Size)
	}
	s.incoming[head.ID] = &incoming{head: head, b: buffer(int(head.Stored))}
	return nil
}

// onNone handles that nothing (more) comes in answer to a request. What came of a piece until then
// is dropped: another peer starts it anew, as half a piece has no digest. The caller holds mu.
func (s *session) onNone(b []byte) error {
	id, err := decodeID(b)
	if err != nil {
		return err
	}
	if in := s.incoming[id]; in != nil {
		delete(s.incoming, id)
		recycle(in.b)
	}
	if t := s.blob.transfer; t != nil && s.joined {
		t.state.Refused(t.now(), s.slot, schedule.RequestID(id))
		t.kick.Notify()
	}
	return nil
}

// readData reads bytes of a piece into its buffer. Those of a piece that nobody wants any more are
// read and dropped, as they are in the middle of the stream. mu is held for the look-up alone;
// progressed notices a cancellation meanwhile.
func (s *session) readData(size int) error {
	if size < 5 {
		return malformed("%d bytes of data", size)
	}
	var id [4]byte
	if _, err := io.ReadFull(s.stream, id[:]); err != nil {
		return err
	}
	size -= len(id)
	s.n.mu.Lock()
	in := s.incoming[binary.BigEndian.Uint32(id[:])]
	s.n.mu.Unlock()
	if in == nil {
		_, err := io.CopyN(io.Discard, s.stream, int64(size))
		return err
	}
	if in.got+size > int(in.head.Stored) {
		return malformed("more bytes than the piece has")
	}
	if missing := in.got + size - len(in.b); missing > 0 {
		in.b = append(in.b, make([]byte, missing)...) // a manifest: memory is taken as it comes
	}
	if _, err := io.ReadFull(s.stream, in.b[in.got:in.got+size]); err != nil {
		return err
	}
	in.got += size
	return s.progressed(in, size)
}

// progressed tells the scheduler how far a piece has come, and passes it on when it is complete.
// Waiting for a verifier stops this session's reading, which keeps pieces from piling up here.
func (s *session) progressed(in *incoming, size int) error {
	s.n.mu.Lock()
	t := s.blob.transfer
	complete := in.got == int(in.head.Stored)
	live := s.incoming[in.head.ID] == in // not cancelled meanwhile
	if complete && live {
		delete(s.incoming, in.head.ID)
	}
	if in.head.Number == manifestNumber {
		s.n.mu.Unlock()
		if !complete {
			return nil
		}
		select {
		case s.manifest <- in.b:
			return nil
		default:
			return malformed("the manifest twice")
		}
	}
	if t == nil || !s.joined || !live {
		s.n.mu.Unlock()
		return nil
	}
	t.state.Progress(t.now(), s.slot, schedule.RequestID(in.head.ID), size)
	first := complete && t.state.Received(t.now(), s.slot, schedule.RequestID(in.head.ID))
	if first {
		t.pending.Add(1)
	}
	if complete {
		t.kick.Notify()
	}
	s.n.mu.Unlock()
	if first {
		t.in <- arrival{s: s, in: in}
	}
	return nil
}

// pool has buffers for the pieces of images, which all have one size: without it, a transfer makes
// gigabytes of garbage.
var pool = sync.Pool{New: func() any { b := make([]byte, blob.BlockSize); return &b }}

// buffer returns n bytes of memory; recycle takes it back if it has the pool's size. Nothing may
// use it afterwards.
func buffer(n int) []byte {
	if n > blob.BlockSize {
		return make([]byte, n)
	}
	return (*pool.Get().(*[]byte))[:n]
}

// recycle returns a buffer of the pool's size; larger ones, for chunks that are no blocks, are left
// to the garbage collector.
func recycle(b []byte) {
	if cap(b) == blob.BlockSize {
		b = b[:blob.BlockSize]
		pool.Put(&b)
	}
}

// checkManifest verifies the digest of a manifest that a peer sent, and decodes it.
func checkManifest(d agentbox.Digest, b []byte) (blob.Manifest, error) {
	if err := blob.Check(d, b); err != nil {
		return blob.Manifest{}, err
	}
	return blob.DecodeManifest(b)
}
