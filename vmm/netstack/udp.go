package netstack

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	transportudp "gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"agentbox/vmm/guest/protocol"
)

// flows are the UDP flows of a box: pairs of a port of its own and an address. gVisor has an
// endpoint for each that was accepted; packet sees what has none.
type flows struct {
	*Stack
	places[stack.TransportEndpointID]
	asked chan struct{} // a place for each question to the resolver that is being answered
}

const (
	// mostQuestions are answered at once; what comes on top is lost, as datagrams may be, and asked
	// again.
	mostQuestions = 64
	// flowIdle is how long a flow lives without a datagram in either direction.
	flowIdle = 2 * time.Minute
	// flowBuffer bounds the bytes of datagrams that wait in one direction of a flow.
	flowBuffer = 256 << 10
)

// init makes gVisor hand datagrams without an endpoint to packet.
func (u *flows) init(s *Stack, most int) {
	u.Stack, u.asked = s, make(chan struct{}, mostQuestions)
	u.places.init(most, &s.work)
	s.tcpip.SetTransportProtocolHandler(transportudp.ProtocolNumber, u.packet)
}

// packet is called for a datagram that belongs to no open flow. It must not block; false has the
// guest told that nobody listens. It is called by the goroutine that reads the cable. While the
// handler decides about a flow its further datagrams are dropped: the first one is kept, and is
// what the flow begins with.
func (u *flows) packet(id stack.TransportEndpointID, p *stack.PacketBuffer) bool {
	d := u.destination("udp", id)
	if d.Addr == netip.AddrPortFrom(protocol.GatewayAddr, dnsPort) {
		u.question(id.RemotePort, p)
		return true
	}
	if u.has(id) { // it is being decided about
		return true // lost, as datagrams may be
	}
	if u.take(id, nil) == 0 {
		u.attempts.add(KindLimit, func() string { return fmt.Sprintf("a flow to %s beyond the limit of %d", d.Addr, u.most) })
		return false
	}
	first := p.Clone()
	go func() {
		defer u.leave(id)
		defer first.DecRef()
		u.carry(d, id, first)
	}()
	return true
}

// carry lets the handler decide, and have the flow. It is the flow's goroutine, until the handler
// returns.
func (u *flows) carry(d Destination, id stack.TransportEndpointID, first *stack.PacketBuffer) {
	if err := u.handler.Accept(u.ctx, d); err != nil {
		u.send(unreachable(packetHead(first), header.ICMPv4PortUnreachable))
		return
	}
	f, err := u.endpoint(id, first)
	if err != nil {
		return // the box tries again, or not
	}
	if u.set(id, func() { _ = f.Close() }) {
		_ = u.handler.Packets(u.ctx, d, f) // how a flow of datagrams ended is nothing the guest can be told
	}
	_ = f.Close()
}

// packetHead is what an ICMP error quotes.
func packetHead(p *stack.PacketBuffer) []byte {
	head := append([]byte{}, p.NetworkHeader().Slice()...)
	return append(head, p.TransportHeader().Slice()...)
}

// endpoint makes gVisor's end of the flow, with the first datagram in it. The caller closes it.
func (u *flows) endpoint(id stack.TransportEndpointID, first *stack.PacketBuffer) (*flow, error) {
	var request *transportudp.ForwarderRequest
	transportudp.NewForwarder(u.tcpip, func(r *transportudp.ForwarderRequest) { request = r }).HandlePacket(id, first)
	f := &flow{}
	ep, err := request.CreateEndpoint(&f.queue)
	if err != nil {
		return nil, errors.New(err.String())
	}
	ep.SocketOptions().SetReceiveBufferSize(flowBuffer, false)
	ep.SocketOptions().SetSendBufferSize(flowBuffer, false)
	f.UDPConn = gonet.NewUDPConn(&f.queue, ep)
	f.timer = time.AfterFunc(flowIdle, func() { _ = f.Close() })
	return f, nil
}

// question answers a datagram to the resolver. It does not block: the answer is given by a
// goroutine of its own, of which there are mostQuestions at once.
func (u *flows) question(from uint16, p *stack.PacketBuffer) {
	select {
	case u.asked <- struct{}{}:
	default:
		u.attempts.add(KindLimit, func() string { return fmt.Sprintf("more than %d questions at once", mostQuestions) })
		return
	}
	message := p.Data().AsRange().ToSlice()
	u.work.Go(func() {
		defer func() { <-u.asked }()
		if answer := u.resolver.answer(u.ctx, message); answer != nil {
			u.send(udp(dnsPort, from, guestIP, answer))
		}
	})
}

// flow is the guest's end of a UDP flow. Its timer closes it after flowIdle without a datagram,
// which a reader sees as net.ErrClosed.
type flow struct {
	*gonet.UDPConn
	queue waiter.Queue
	timer *time.Timer
	once  sync.Once
}

// Read gives one datagram.
func (f *flow) Read(p []byte) (int, error) {
	n, err := f.UDPConn.Read(p)
	if errors.Is(err, io.EOF) {
		err = net.ErrClosed
	}
	f.timer.Reset(flowIdle) // of one that is closed it only closes it again
	return n, err
}

// Write sends one datagram.
func (f *flow) Write(p []byte) (int, error) {
	f.timer.Reset(flowIdle)
	return f.UDPConn.Write(p)
}

// Close ends the flow; reads under way return. Idempotent.
func (f *flow) Close() (err error) {
	f.once.Do(func() {
		f.timer.Stop()
		err = f.UDPConn.Close()
	})
	return err
}
