package exchange

import (
	"context"
	"errors"
	"time"

	"agentbox/agentbox"
)

// Serve serves a stream that a peer opened until it ends, and closes it. peer comes from the
// network; the stream itself proves nothing. The error says why it ended; io.EOF and the like are
// ordinary. It may be called concurrently for any number of streams.
func (n *Node) Serve(ctx context.Context, peer PeerID, stream Stream) error {
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	s, err := n.admit(ctx, peer, stream)
	if err != nil {
		stream.Close()
		return err
	}
	return s.run()
}

// admit reads what the stream is about, and makes a session if the blob is shared with the peer.
// Otherwise the peer sees a closed stream, whatever the reason: it does not learn whether the blob
// is missing or not shared with it. The deadline is for the opening alone; afterwards silence is no
// fault (endIdle).
func (n *Node) admit(ctx context.Context, peer PeerID, stream Stream) (*session, error) {
	if err := stream.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	d, err := readOpening(stream)
	if err != nil {
		return nil, err
	}
	if err := stream.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if !n.mayServe(ctx, peer, d) {
		return nil, errNotShared
	}
	s, err := n.register(peer, stream, d, false)
	if err == nil {
		err = s.greet(ctx)
	}
	return s, err
}

// greet announces what is here and who else takes part. It comes first, so that the peer's first
// message can be a request.
func (s *session) greet(ctx context.Context) error {
	if err := s.n.loadManifest(ctx, s.blob); err != nil {
		s.end(err)
		return err
	}
	n := s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	// It may have been dropped while the Store was asked. The queue would keep it for good.
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	n.queue.Open(s, s.blob.digest, len(s.blob.m.Chunks))
	s.push(frameWelcome)
	s.announceBits()
	var others []byte
	for o := range s.blob.sessions {
		if o != s && len(others) < maxPeersNamed*len(PeerID{}) {
			others = append(others, o.peer[:]...)
		}
	}
	if len(others) > 0 {
		s.push(framePeers, others...)
	}
	return s.ready()
}

// loadManifest loads a blob's manifest and which pieces are here. The Store is asked without mu, as
// it may read from disk; if two do so at the same time, setManifest merges both results.
func (n *Node) loadManifest(ctx context.Context, b *blobState) error {
	n.mu.Lock()
	m, known := b.m, b.known
	n.mu.Unlock()
	var err error
	if !known {
		if m, err = n.cfg.Store.Manifest(ctx, b.digest); err != nil {
			return err
		}
	}
	bits, err := n.cfg.Store.Bitmap(m)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	b.setManifest(m, bits)
	return nil
}

// open opens a session with a peer, and returns when the stream exists; whether the peer serves it
// shows when it answers. The session then runs in a goroutine of work, which the Node's Close waits
// for. Conflict when there is a session with it about the same blob that stays (register).
func (n *Node) open(ctx context.Context, peer PeerID, d agentbox.Digest) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stream, err := n.cfg.Network.Open(ctx, peer)
	if err != nil {
		return nil, err
	}
	s, err := n.register(peer, stream, d, true)
	if err != nil {
		stream.Close()
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// It may have been dropped since: the Node is closed, or the peer opened a session that stays.
	if s.ctx.Err() != nil {
		n.drop(s, errClosed)
		return nil, errors.Join(context.Cause(s.ctx), stream.Close())
	}
	// The opening has to be the first thing on the stream. register made the session known to
	// others, who may have pushed frames already.
	s.control = append(opening(d), s.control...)
	if s.blob.known {
		n.queue.Open(s, d, len(s.blob.m.Chunks))
	}
	s.announceBits()
	s.wake.Notify()
	n.work.Go(func() {
		if err := s.run(); err != nil {
			n.cfg.Log.Debug("a session has ended", "peer", peer.Short(), "blob", d.Short(), "error", err)
		}
	})
	return s, nil
}
