package exchange

import (
	"context"
	"sync"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Wire is the Network of streams in QUIC connections, one connection to a peer for all sessions: a
// handshake for each blob would take longer than a small one. mu guards conns.
type Wire struct {
	node *wire.Node
	mu   sync.Mutex
	// conns has at most one for each peer; one that has ended is replaced by the next Open.
	conns map[PeerID]*dialled
}

// dialled is a connection that is there or being made. conn and err are set when done is closed.
type dialled struct {
	done chan struct{}
	conn *wire.Conn
	err  error
}

// OverWire uses the connections of a node.
func OverWire(node *wire.Node) *Wire { return &Wire{node: node, conns: map[PeerID]*dialled{}} }

// Answer has n answer the sessions that peers open, each in a goroutine that ends with its
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

// Open opens a stream in the connection to a peer, and makes the connection if need be. ctx bounds
// both, for this caller alone. Unavailable when the peer cannot be reached.
func (w *Wire) Open(ctx context.Context, peer identity.PeerID) (Stream, error) {
	d := w.dial(ctx, peer)
	select {
	case <-d.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if d.err != nil {
		return nil, d.err
	}
	s, err := d.conn.OpenStream(ctx)
	if err != nil {
		w.forget(peer, d)
		return nil, err
	}
	return stream{s}, nil
}

// dial makes the connection, or gives the one that is there. Calls for one peer at once make one:
// the second waits for done. One that has ended since is replaced. It is made in a goroutine that
// ends with the node's own bound on dialling; Close waits for it.
func (w *Wire) dial(ctx context.Context, peer identity.PeerID) *dialled {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.conns[peer]; d != nil {
		select {
		case <-d.done:
			if d.conn.Context().Err() == nil {
				return d
			}
		default:
			return d
		}
	}
	d := &dialled{done: make(chan struct{})}
	w.conns[peer] = d
	go func() {
		defer close(d.done)
		// The first caller may lose patience while others wait for the same connection. The node
		// bounds the time.
		if d.conn, d.err = w.node.Dial(context.WithoutCancel(ctx), peer, wire.Blobs); d.err != nil {
			w.forget(peer, d)
		}
	}()
	return d
}

// forget has the next call make another connection.
func (w *Wire) forget(peer identity.PeerID, d *dialled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns[peer] == d {
		delete(w.conns, peer)
	}
}

// Close ends the connections, and waits for those that are being made.
func (w *Wire) Close() error {
	w.mu.Lock()
	all := w.conns
	w.conns = map[PeerID]*dialled{}
	w.mu.Unlock()
	for _, d := range all {
		<-d.done
		if d.conn != nil {
			d.conn.Close()
		}
	}
	return nil
}

// stream is one whose Close ends both directions.
type stream struct{ *wire.Stream }

func (s stream) Close() error {
	s.Abort()
	return nil
}
