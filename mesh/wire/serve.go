package wire

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
)

// greeting is the one byte by which a server says that it admitted the client. In TLS 1.3 a
// client's handshake is over before the server has seen its certificate.
const greeting = 'y'

// GuestHandler serves the holder of an invitation, of whom nothing is known but that it knew the
// invitation's id. Binding is a secret of this very connection that both sides have.
type GuestHandler func(ctx context.Context, c Conn, binding []byte)

// HandleGuest lets a machine that knows an id open a connection, member or not; a nil handler ends
// that. The id is made by GuestID, and is told to those who are invited.
func (n *Node) HandleGuest(id string, h GuestHandler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	proto := guestProtocol(id)
	if n.guests[proto] = h; h == nil {
		delete(n.guests, proto)
	}
}

// guest tells whether an ALPN is that of an open invitation.
func (n *Node) guest(proto string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.guests[proto] != nil
}

// speaks tells whether somebody here serves what a client wants to speak.
func (n *Node) speaks(proto string) bool {
	if n.guest(proto) {
		return true
	}
	_, ok := n.serviceOf(proto)
	return ok
}

// serviceOf is the service that an ALPN asks for, false when it is of another team or nobody serves
// it.
func (n *Node) serviceOf(proto string) (Service, bool) {
	s := Service(proto[strings.LastIndexByte(proto, '/')+1:])
	n.mu.Lock()
	defer n.mu.Unlock()
	root := n.list.Root()
	return s, root != nil && n.handlers[s] != nil && protocol(root, s) == proto
}

// accept serves connections until the listener is closed.
func (n *Node) accept() {
	for {
		q, err := n.listener.Accept(n.ctx)
		if err != nil {
			return
		}
		if !n.tasks.Go(func() { n.serve(q) }) {
			_ = q.CloseWithError(closeDone, "")
		}
	}
}

// serve has a connection that a peer opened handled until it ends. The handshake has checked the
// peer; register checks again, as the list may have changed since, and only then is the client told
// that it is admitted.
func (n *Node) serve(q *quic.Conn) {
	state := q.ConnectionState().TLS
	id, err := peerOf(state)
	if err != nil {
		q.CloseWithError(closeStranger, "")
		return
	}
	c := newConn(n, q, id, "")
	n.mu.Lock()
	guest := n.guests[state.NegotiatedProtocol]
	n.mu.Unlock()
	if guest != nil {
		n.serveGuest(c, state, guest)
		return
	}
	s, ok := n.serviceOf(state.NegotiatedProtocol)
	if c.service = s; !ok || !n.register(c, true) {
		c.end(closeStranger)
		return
	}
	defer n.forget(c)
	n.book.confirm(id, c.Remote())
	n.mu.Lock()
	handle := n.handlers[s]
	n.mu.Unlock()
	if handle == nil || c.greet() != nil {
		c.end(closeDone)
		return
	}
	handle(c.Context(), c)
	c.end(closeDone)
}

// serveGuest is serve for a connection by an invitation. Where it comes from is not remembered.
func (n *Node) serveGuest(c *conn, state tls.ConnectionState, handle GuestHandler) {
	c.guest = true
	binding, err := exportBinding(state)
	if err != nil || !n.register(c, true) {
		c.end(closeStranger)
		return
	}
	defer n.forget(c)
	if c.greet() == nil {
		handle(c.Context(), c, binding)
	}
	c.end(closeDone)
}

// register makes a connection one that Admit and Close end. It is false when it may not be.
func (n *Node) register(c *conn, incoming bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil || !c.guest && !n.list.Admits(c.peer, time.Now()) {
		return false
	}
	if incoming {
		same := 0
		for o := range n.conns {
			if o.incoming && o.peer == c.peer && o.service == c.service {
				same++
			}
		}
		if same >= perService {
			n.counters.OverLimit++
			return false
		}
		n.counters.Accepted++
	} else {
		n.counters.Dialled++
	}
	c.incoming = incoming
	n.conns[c] = true
	return true
}

// forget takes a connection that has ended out of the books.
func (n *Node) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// exportBinding gives bytes that only the two ends of this connection know, RFC 8446 7.5.
func exportBinding(state tls.ConnectionState) ([]byte, error) {
	return state.ExportKeyingMaterial("EXPERIMENTAL agentbox join 1", nil, 32)
}

// GuestID is how a secret is asked for: it names it, and does not tell it.
func GuestID(hash [32]byte) string { return hex.EncodeToString(hash[:16]) }
