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

// flows are the UDP flows of a box: pairs of a port of the box and an address. Each accepted flow
// has an endpoint in gVisor; packet gets the datagrams of all others.
type flows struct {
	*Stack
	slots[stack.TransportEndpointID]
	queries chan struct{} // an element for each DNS query that is being answered
}

const (
	// maxQueries is how many DNS queries are answered at once. Others are dropped, as datagrams may
	// be, and the resolver in the box repeats them.
	maxQueries = 64
	// flowIdle is how long a flow lives without a datagram in either direction.
	flowIdle = 2 * time.Minute
	// flowBuffer is the most bytes of datagrams that wait in one direction of a flow.
	flowBuffer = 256 << 10
)

// init makes gVisor pass datagrams without an endpoint to packet.
func (fl *flows) init(s *Stack, limit int) {
	fl.Stack, fl.queries = s, make(chan struct{}, maxQueries)
	fl.slots.init(limit, &s.work)
	s.tcpip.SetTransportProtocolHandler(transportudp.ProtocolNumber, fl.packet)
}

// packet gets a datagram that belongs to no open flow, in the goroutine that reads the link, so it
// must not block. If it returns false, gVisor tells the guest that nobody listens. While the
// handler decides about a flow, its first datagram is kept and further ones are dropped.
func (fl *flows) packet(id stack.TransportEndpointID, p *stack.PacketBuffer) bool {
	d := fl.destination("udp", id)
	if d.Addr == netip.AddrPortFrom(protocol.GatewayAddr, dnsPort) {
		fl.query(id.RemotePort, p)
		return true
	}
	if fl.has(id) {
		return true // dropped
	}
	if fl.acquire(id, nil) == 0 {
		fl.attempts.add(KindLimit, func() string { return fmt.Sprintf("a flow to %s beyond the limit of %d", d.Addr, fl.limit) })
		return false
	}
	first := p.Clone()
	go func() {
		defer fl.release(id)
		defer first.DecRef()
		fl.serve(d, id, first)
	}()
	return true
}

// serve lets the handler decide about the flow and carry it. It is the goroutine of the flow.
func (fl *flows) serve(d Destination, id stack.TransportEndpointID, first *stack.PacketBuffer) {
	if err := fl.handler.Accept(fl.ctx, d); err != nil {
		fl.send(unreachable(headers(first), header.ICMPv4PortUnreachable))
		return
	}
	f, err := fl.endpoint(id, first)
	if err != nil {
		return // the box tries again, or not
	}
	if fl.onEnd(id, func() { _ = f.Close() }) {
		_ = fl.handler.Packets(fl.ctx, d, f) // UDP cannot tell the guest how a flow ended
	}
	_ = f.Close()
}

// headers returns what an ICMP error quotes of a packet.
func headers(p *stack.PacketBuffer) []byte {
	head := append([]byte{}, p.NetworkHeader().Slice()...)
	return append(head, p.TransportHeader().Slice()...)
}

// endpoint makes gVisor's end of the flow, with the first datagram. The caller closes it.
func (fl *flows) endpoint(id stack.TransportEndpointID, first *stack.PacketBuffer) (*flow, error) {
	var request *transportudp.ForwarderRequest
	transportudp.NewForwarder(fl.tcpip, func(r *transportudp.ForwarderRequest) { request = r }).HandlePacket(id, first)
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

// query answers a datagram to the resolver, in one of at most maxQueries goroutines.
func (fl *flows) query(from uint16, p *stack.PacketBuffer) {
	select {
	case fl.queries <- struct{}{}:
	default:
		fl.attempts.add(KindLimit, func() string { return fmt.Sprintf("more than %d DNS queries at once", maxQueries) })
		return
	}
	message := p.Data().AsRange().ToSlice()
	fl.work.Go(func() {
		defer func() { <-fl.queries }()
		if answer := fl.resolver.answer(fl.ctx, message); answer != nil {
			fl.send(udp(dnsPort, from, guestIP, answer))
		}
	})
}

// flow is the guest's end of a UDP flow. Its timer closes it after flowIdle without a datagram, and
// a reader gets net.ErrClosed.
type flow struct {
	*gonet.UDPConn
	queue waiter.Queue
	timer *time.Timer
	once  sync.Once
}

// Read reads one datagram.
func (f *flow) Read(p []byte) (int, error) {
	n, err := f.UDPConn.Read(p)
	if errors.Is(err, io.EOF) {
		err = net.ErrClosed
	}
	f.timer.Reset(flowIdle) // closes a closed flow again, which does nothing
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
