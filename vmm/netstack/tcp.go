package netstack

import (
	"fmt"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"agentbox/vmm/guest/protocol"
)

// streams are the TCP connections of a box. Each that is open holds a goroutine of ours.
type streams struct {
	*Stack
	places[*stream]
}

// dnsPort is the gateway's, for questions over UDP and TCP.
const dnsPort = 53

// Sizes of the buffers of a connection, in bytes. The largest is what one fast connection needs;
// when there are many the budget is shared, since a guest can fill all of them.
const (
	bufferLeast  = 16 << 10
	bufferMost   = 4 << 20
	bufferBudget = 64 << 20
)

// How long a connection that both sides have closed is remembered, and one that only we have. The
// cable neither loses nor delays segments, so little can come late.
const (
	timeWait = time.Second
	linger   = 20 * time.Second
)

// tune sets what one peer on a lossless cable needs: buffers as above, selective acknowledgements,
// and no guessing of a receive buffer's size.
func (s *Stack) tune() error {
	wait, fin := tcpip.TCPTimeWaitTimeoutOption(timeWait), tcpip.TCPLingerTimeoutOption(linger)
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(false)
	options := []tcpip.SettableTransportProtocolOption{
		&wait, &fin, &sack, &moderate,
		&tcpip.TCPSendBufferSizeRangeOption{Min: bufferLeast, Default: bufferMost, Max: bufferMost},
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: bufferLeast, Default: bufferMost, Max: bufferMost},
	}
	for _, o := range options {
		if err := s.tcpip.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %s", o, err)
		}
	}
	return nil
}

// init makes gVisor hand every new connection to begin.
func (t *streams) init(s *Stack, most int) {
	t.Stack = s
	t.places.init(most, &s.work)
	// Those beyond our own limit are refused at once; the forwarder drops what is twice as much.
	f := tcp.NewForwarder(s.tcpip, bufferMost, 2*most, t.begin)
	s.tcpip.SetTransportProtocolHandler(tcp.ProtocolNumber, f.HandlePacket)
}

// begin is called in a goroutine of its own for each SYN. It lives as long as the connection. The
// handler's error decides how that ends.
func (t *streams) begin(r *tcp.ForwarderRequest) {
	d := t.destination("tcp", r.ID())
	c := newStream(r)
	n := t.take(c, c.abort)
	if n == 0 {
		t.attempts.add(KindLimit, func() string {
			return fmt.Sprintf("a connection to %s beyond the limit of %d", d.Addr, t.most)
		})
		r.Complete(true)
		return
	}
	defer t.leave(c)
	// The share is not taken from those that are open already: the budget is a bound on what
	// begins, and no promise.
	c.share = min(max(bufferBudget/n, bufferLeast), bufferMost)
	c.finish(t.carry(d, c), t.ctx.Done())
}

// carry lets the handler decide, and have the connection. A connection to the gateway's resolver is
// not decided about here but name by name.
func (t *streams) carry(d Destination, c *stream) error {
	if d.Addr == netip.AddrPortFrom(protocol.GatewayAddr, dnsPort) {
		return t.resolver.serveStream(t.ctx, c)
	}
	if err := t.handler.Accept(t.ctx, d); err != nil {
		return err
	}
	return t.handler.Stream(t.ctx, d, c)
}

// destination is where a packet goes. id is as gVisor sees it: the local end is where the guest
// connects to.
func (s *Stack) destination(proto string, id stack.TransportEndpointID) Destination {
	addr := netip.AddrFrom4(id.LocalAddress.As4())
	return Destination{Proto: proto, Name: s.names.of(addr), Addr: netip.AddrPortFrom(addr, id.LocalPort)}
}
