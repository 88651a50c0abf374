package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Dial opens a connection to a peer. It tries all known addresses at once, and returns when the
// peer has admitted us, after at most ten seconds. Errors have code NotFound when no address is
// known, Conflict when we are no member to the peer (or it is none to us), Unavailable when it does
// not answer, Invalid when the peer is this node itself.
func (n *Node) Dial(ctx context.Context, peer identity.PeerID, s Service) (*Conn, error) {
	return n.dial(ctx, peer, s, idleTimeout)
}

// DialLine is Dial for a connection on which something is said every two minutes: with builds that know
// this, it ends when nothing is received for 150 s.
func (n *Node) DialLine(ctx context.Context, peer identity.PeerID, s Service) (*Conn, error) {
	return n.dial(ctx, peer, s, lineTimeout)
}

func (n *Node) dial(ctx context.Context, peer identity.PeerID, s Service, idle time.Duration) (*Conn, error) {
	switch {
	case peer == n.self:
		return nil, agentbox.Errorf(agentbox.Invalid, "mesh: a peer does not connect to itself")
	case !n.admits(peer):
		return nil, agentbox.Errorf(agentbox.Conflict, "peer %s is not a member of the team", peer.Short())
	}
	addresses := n.Addresses(peer)
	if len(addresses) == 0 {
		return nil, agentbox.Errorf(agentbox.NotFound, "no address of peer %s is known", peer.Short())
	}
	c, err := n.dialAny(ctx, addresses, s, peer, idle)
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", peer.Short(), err)
	}
	return c, nil
}

// DialAddr opens a connection to any member that answers at an address, as Dial does. Conn.Peer
// says which member it is.
func (n *Node) DialAddr(ctx context.Context, a netip.AddrPort, s Service) (*Conn, error) {
	return n.dialAny(ctx, []netip.AddrPort{a}, s, identity.PeerID{}, idleTimeout)
}

// DialGuest opens the connection for using an invitation, to a host:port; s is a GuestService. The
// peer that answers is not known yet: caller and handler prove to each other, with Conn.Binding,
// that they have the secret.
func (n *Node) DialGuest(ctx context.Context, address string, s Service) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*handshakeTimeout)
	defer cancel()
	a, err := resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	return n.DialAddr(ctx, a, s)
}

// dialAny takes the first address that answers as it should, and waits until all attempts have
// ended, which it cancels then.
func (n *Node) dialAny(ctx context.Context, addresses []netip.AddrPort, s Service, want identity.PeerID, idle time.Duration) (*Conn, error) {
	n.mu.Lock()
	root := n.list.Root()
	n.mu.Unlock()
	if root == nil && !s.guest() {
		return nil, agentbox.Errorf(agentbox.Conflict, "this machine is in no team")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*handshakeTimeout)
	defer cancel()
	cfg := n.clientTLS(root, s, want)
	var mu sync.Mutex // guards what follows
	var first *Conn
	var errs []error
	var all sync.WaitGroup
	for _, a := range addresses {
		all.Go(func() {
			c, err := n.dialOne(ctx, a, cfg, idle)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case first != nil:
				c.end(closeDone)
			default:
				first = c
				cancel()
			}
		})
	}
	all.Wait()
	if first == nil {
		n.counters.Failed.Add(1)
		return nil, worst(errs)
	}
	first.service = s
	if err := n.register(first); err != nil {
		first.end(closeNonMember)
		return nil, err
	}
	context.AfterFunc(first.Context(), func() { n.forget(first) })
	return first, nil
}

// errClosed is the error of anything that starts after Close.
var errClosed = agentbox.Errorf(agentbox.Unavailable, "this machine's part in the mesh has ended")

// worst returns the most informative error: a refusal rather than silence.
func worst(errs []error) error {
	for _, err := range errs {
		if agentbox.CodeOf(err) == agentbox.Conflict {
			return err
		}
	}
	return errs[0]
}

// dialOne connects to one address and waits for the greeting.
func (n *Node) dialOne(ctx context.Context, a netip.AddrPort, cfg *tls.Config, idle time.Duration) (*Conn, error) {
	q, err := n.transport.Dial(ctx, net.UDPAddrFromAddrPort(a), cfg, quicConfig(idle))
	if err != nil {
		return nil, dialError(a, err)
	}
	id, err := peerOf(q.ConnectionState().TLS)
	if err == nil {
		err = awaitGreeting(ctx, q)
	}
	if err != nil {
		q.CloseWithError(closeDone, "")
		return nil, dialError(a, err)
	}
	return &Conn{node: n, q: q, peer: id}, nil
}

// awaitGreeting waits for the single byte that says that we are admitted.
func awaitGreeting(ctx context.Context, q *quic.Conn) error {
	s, err := q.AcceptUniStream(ctx)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		s.SetReadDeadline(deadline)
	}
	var b [2]byte
	if k, err := s.Read(b[:]); k != 1 || b[0] != greeting {
		return errors.Join(errNonMember, err)
	}
	return nil
}

// dialError tells a refusal from silence, without the reason that the other side gave.
func dialError(a netip.AddrPort, err error) error {
	var refused *quic.TransportError
	switch {
	case errors.Is(err, errNonMember),
		errors.As(err, &refused) && refused.ErrorCode.IsCryptoError(),
		endedAsNonMember(err):
		return agentbox.Errorf(agentbox.Conflict, "%s is not a member of this team, or does not take this machine for one", a).
			WithHint("agentbox mesh status shows whether this machine is a member")
	case errors.Is(err, context.Canceled):
		return err
	}
	return agentbox.Errorf(agentbox.Unavailable, "%s does not answer", a)
}

// resolve looks up a host:port and returns the first address.
func resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	port, portErr := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil || portErr != nil {
		return netip.AddrPort{}, agentbox.Errorf(agentbox.Invalid, "%q is not an address", address)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return netip.AddrPort{}, agentbox.Errorf(agentbox.Unavailable, "%s: its name is not known here", address)
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(port)), nil
}
