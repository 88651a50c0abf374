package wire

import (
	"context"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
)

// greeting is the byte by which a server says that it admitted the client. In TLS 1.3, a client's
// handshake is complete before the server has seen its certificate.
const greeting = 'y'

// guestTimeout bounds a connection for an invitation, as its peer is unknown to the team.
const guestTimeout = 20 * time.Second

// serviceOf is the service that an ALPN asks for; nil for another team's or none.
func (n *Node) serviceOf(proto string) (Service, Handler) {
	n.mu.Lock()
	root, guests := n.list.Root(), n.guests
	s := Service(proto[strings.LastIndexByte(proto, '/')+1:])
	handle := n.handlers[s]
	n.mu.Unlock()
	if id, ok := strings.CutPrefix(proto, protocolPrefix+joinPrefix); ok && guests != nil {
		return GuestService(id), guests(GuestService(id))
	}
	if protocol(root, s) != proto {
		return s, nil
	}
	return s, handle
}

func (n *Node) accept() {
	for {
		q, err := n.listener.Accept(n.ctx)
		if err != nil {
			return
		}
		n.tasks.Go(func() { n.serve(q) })
	}
}

// serve has a connection that a peer opened handled until it ends. The handshake has checked the
// peer; register checks again, as the list may have changed since, and only then is the client
// greeted. The address of a guest is not remembered unless it becomes a member, which package roster decides.
func (n *Node) serve(q *quic.Conn) {
	state := q.ConnectionState().TLS
	id, err := peerOf(state)
	s, handle := n.serviceOf(state.NegotiatedProtocol)
	c := &Conn{node: n, q: q, peer: id, service: s, incoming: true}
	if err != nil || handle == nil || n.register(c) != nil {
		c.end(closeNonMember)
		return
	}
	defer n.forget(c)
	defer c.end(closeDone)
	ctx := c.Context()
	if s.guest() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, guestTimeout)
		defer cancel()
	}
	if c.greet() == nil {
		handle(ctx, c)
	}
}

// register adds a connection to those that Admit and Close end, and remembers the peer's address.
// Conflict when the peer is no member any more or has too many connections.
func (n *Node) register(c *Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.ctx.Err() != nil:
		return errClosed
	case !c.service.guest() && !n.list.Admits(c.peer, time.Now()):
		return agentbox.Errorf(agentbox.Conflict, "not a member of the team any more")
	case c.incoming && n.countOf(c) >= maxConnsPerService:
		n.counters.OverLimit.Add(1)
		return agentbox.Errorf(agentbox.Conflict, "too many connections")
	case c.incoming:
		n.counters.Accepted.Add(1)
	default:
		n.counters.Dialled.Add(1)
	}
	if !c.service.guest() {
		n.book.confirm(c.peer, c.Remote())
	}
	n.conns[c] = true
	return nil
}

// countOf counts a peer's connections to the service of c. The caller holds n.mu.
func (n *Node) countOf(c *Conn) (same int) {
	for o := range n.conns {
		if o.incoming && o.peer == c.peer && o.service == c.service {
			same++
		}
	}
	return same
}

func (n *Node) forget(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}
