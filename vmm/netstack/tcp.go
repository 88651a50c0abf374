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

// streams are the TCP connections of a box. Each has a goroutine.
type streams struct {
	*Stack
	slots[*stream]
}

// dnsPort is the gateway's port for DNS over UDP and TCP.
const dnsPort = 53

// Sizes of the buffers of a connection, in bytes. One fast connection needs the largest. A guest
// can fill the buffers of all connections, so many of them share the budget.
const (
	minBuffer    = 16 << 10
	maxBuffer    = 4 << 20
	bufferBudget = 64 << 20
)

// How long a connection is remembered after both sides have closed it, and after only we have. Both
// are short, since the cable neither loses nor delays segments.
const (
	timeWait = time.Second
	linger   = 20 * time.Second
)

// tune configures TCP for one peer on a lossless cable: the buffers and times above, selective
// acknowledgements, and no estimate of the size of a receive buffer.
func (s *Stack) tune() error {
	wait, fin := tcpip.TCPTimeWaitTimeoutOption(timeWait), tcpip.TCPLingerTimeoutOption(linger)
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(false)
	options := []tcpip.SettableTransportProtocolOption{
		&wait, &fin, &sack, &moderate,
		&tcpip.TCPSendBufferSizeRangeOption{Min: minBuffer, Default: maxBuffer, Max: maxBuffer},
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: minBuffer, Default: maxBuffer, Max: maxBuffer},
	}
	for _, o := range options {
		if err := s.tcpip.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %s", o, err)
		}
	}
	return nil
}

// init makes gVisor pass every new connection to begin.
func (st *streams) init(s *Stack, limit int) {
	st.Stack = s
	st.slots.init(limit, &s.work)
	// begin refuses connections beyond the limit. Beyond twice the limit the forwarder drops them.
	f := tcp.NewForwarder(s.tcpip, maxBuffer, 2*limit, st.begin)
	s.tcpip.SetTransportProtocolHandler(tcp.ProtocolNumber, f.HandlePacket)
}

// begin is called for each SYN, in a goroutine that lives as long as the connection. The handler's
// error decides how the connection ends.
func (st *streams) begin(r *tcp.ForwarderRequest) {
	d := st.destination("tcp", r.ID())
	c := newStream(r)
	n := st.acquire(c, c.reset)
	if n == 0 {
		st.attempts.add(KindLimit, func() string {
			return fmt.Sprintf("a connection to %s beyond the limit of %d", d.Addr, st.limit)
		})
		r.Complete(true)
		return
	}
	defer st.release(c)
	// Connections that are open already keep their buffers, so the budget may be exceeded.
	c.share = min(max(bufferBudget/n, minBuffer), maxBuffer)
	c.finish(st.serve(d, c), st.ctx.Done())
}

// serve lets the handler decide about the connection and carry it. Connections to the gateway's
// resolver are always accepted: the handler decides about each name.
func (st *streams) serve(d Destination, c *stream) error {
	if d.Addr == netip.AddrPortFrom(protocol.GatewayAddr, dnsPort) {
		return st.resolver.serveStream(st.ctx, c)
	}
	if err := st.handler.Accept(st.ctx, d); err != nil {
		return err
	}
	return st.handler.Stream(st.ctx, d, c)
}

// destination returns where a packet goes. In id, as gVisor sees it, that is the local end.
func (s *Stack) destination(proto string, id stack.TransportEndpointID) Destination {
	addr := netip.AddrFrom4(id.LocalAddress.As4())
	return Destination{Proto: proto, Name: s.names.nameOf(addr), Addr: netip.AddrPortFrom(addr, id.LocalPort)}
}
