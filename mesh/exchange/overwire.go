package exchange

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/singleflight"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Wire is the Network of streams in QUIC connections, with one connection to a peer for all
// sessions: a handshake for each blob would take longer than a small blob. dialling shares one
// attempt among concurrent calls for one peer.
type Wire struct {
	node     *wire.Node
	dialling singleflight.Group

	mu sync.Mutex
	// conns has at most one for each peer; the next Open replaces one that has ended. It is nil
	// after Close.
	conns map[PeerID]*wire.Conn
}

// OverWire uses the connections of a node.
func OverWire(node *wire.Node) *Wire { return &Wire{node: node, conns: map[PeerID]*wire.Conn{}} }

// Answer makes n serve the sessions that peers open, each in a goroutine that ends with its
// connection.
func (w *Wire) Answer(n *Node) {
	w.node.Handle(wire.Blobs, func(ctx context.Context, c *wire.Conn) {
		var sessions sync.WaitGroup
		defer sessions.Wait()
		for {
			s, err := c.AcceptStream(ctx)
			if err != nil {
				return
			}
			sessions.Go(func() {
				if err := n.Serve(ctx, c.Peer(), stream{s}); err != nil {
					n.cfg.Log.Debug("a session has ended", "peer", c.Peer().Short(), "error", err)
				}
			})
		}
	})
}

// Open opens a stream in the connection to a peer, and connects if need be. ctx bounds both, for
// this caller alone. Unavailable when the peer cannot be reached.
func (w *Wire) Open(ctx context.Context, peer identity.PeerID) (Stream, error) {
	w.mu.Lock()
	c := w.conns[peer]
	w.mu.Unlock()
	if c == nil || c.Context().Err() != nil {
		// The first caller may give up while others wait for the same connection. The node bounds
		// the time.
		made := w.dialling.DoChan(peer.String(), func() (any, error) { return w.dial(context.WithoutCancel(ctx), peer) })
		select {
		case m := <-made:
			if m.Err != nil {
				return nil, m.Err
			}
			c = m.Val.(*wire.Conn)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s, err := c.OpenStream(ctx)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.conns[peer] == c {
			delete(w.conns, peer) // it has ended, or has as many streams as it may
		}
		return nil, err
	}
	return stream{s}, nil
}

// dial connects to a peer. A connection that is made after Close is closed.
func (w *Wire) dial(ctx context.Context, peer PeerID) (*wire.Conn, error) {
	c, err := w.node.Dial(ctx, peer, wire.Blobs)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		return nil, errors.Join(errClosed, c.Close())
	}
	w.conns[peer] = c
	return c, nil
}

// Close ends the connections. An attempt under way ends with the node's bound on dialling.
func (w *Wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
	return nil
}

// stream is one whose Close ends both directions.
type stream struct{ *wire.Stream }

func (s stream) Close() error {
	s.Abort()
	return nil
}
