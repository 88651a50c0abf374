package netstack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	networkv4 "gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	transportudp "gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"agentbox/vmm"
	"agentbox/vmm/guest/protocol"
)

// limit is for what is bound to happen, however busy the machine is.
const limit = 5 * time.Minute

// cable is a vmm.Link whose other end is in the test.
type cable struct {
	toHost, toGuest chan []byte
	cut             chan struct{}
	once            sync.Once
}

func newCable() *cable {
	return &cable{toHost: make(chan []byte, 64), toGuest: make(chan []byte, 64), cut: make(chan struct{})}
}

func (c *cable) MTU() int { return protocol.NetworkMTU }

func (c *cable) ReadFrame(buf []byte) (int, error) {
	select {
	case f := <-c.toHost:
		if len(f) > len(buf) {
			return 0, vmm.ErrLongFrame
		}
		return copy(buf, f), nil
	case <-c.cut:
		return 0, net.ErrClosed
	}
}

func (c *cable) WriteFrame(parts ...[]byte) error {
	select {
	case c.toGuest <- slices.Concat(parts...):
		return nil
	case <-c.cut:
		return net.ErrClosed
	}
}

func (c *cable) Close() error {
	c.once.Do(func() { close(c.cut) })
	return nil
}

// send puts a frame of the guest on the cable.
func (c *cable) send(t testing.TB, f []byte) {
	t.Helper()
	select {
	case c.toHost <- f:
	case <-c.cut:
	case <-time.After(limit):
		t.Fatal("nobody reads the cable")
	}
}

// receive is the next frame to the guest.
func (c *cable) receive(t testing.TB) []byte {
	t.Helper()
	select {
	case f := <-c.toGuest:
		return f
	case <-time.After(limit):
		t.Fatal("no frame came")
		return nil
	}
}

// policy is a Handler made of functions; those that are nil refuse.
type policy struct {
	lookup  func(Question) error
	accept  func(Destination) error
	stream  func(context.Context, Destination, Conn) error
	packets func(context.Context, Destination, net.Conn) error

	mu       sync.Mutex
	attempts []Attempt
	more     chan struct{} // receives when attempts grew
}

var errRefused = errors.New("refused")

func (p *policy) Lookup(_ context.Context, q Question) error {
	if p.lookup == nil {
		return errRefused
	}
	return p.lookup(q)
}

func (p *policy) Accept(_ context.Context, d Destination) error {
	if p.accept == nil {
		return errRefused
	}
	return p.accept(d)
}

func (p *policy) Stream(ctx context.Context, d Destination, c Conn) error { return p.stream(ctx, d, c) }
func (p *policy) Packets(ctx context.Context, d Destination, c net.Conn) error {
	return p.packets(ctx, d, c)
}

func (p *policy) Attempt(a Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts = append(p.attempts, a)
	if p.more != nil {
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
}

// seen is what has been reported so far.
func (p *policy) seen() []Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.attempts)
}

// awaitAttempt waits for a report of a kind.
func (p *policy) awaitAttempt(t *testing.T, kind Kind) Attempt {
	t.Helper()
	end := time.After(limit)
	for {
		for _, a := range p.seen() {
			if a.Kind == kind {
				return a
			}
		}
		select {
		case <-p.more:
		case <-end:
			t.Fatalf("no attempt %q was reported, but %v", kind, p.seen())
		}
	}
}

// allowAll lets p allow every name and flow.
func (p *policy) allowAll() *policy {
	p.lookup = func(Question) error { return nil }
	p.accept = func(Destination) error { return nil }
	return p
}

// startStack starts a stack on a cable whose guest's end is the test's.
func startStack(t testing.TB, p *policy, streams, flows int) (*Stack, *cable) {
	t.Helper()
	p.more = make(chan struct{}, 1)
	c := newCable()
	s, err := newStack(c, p, streams, flows)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// box is a guest: another stack, with Ethernet and ARP, configured as the agent does.
type box struct {
	*stack.Stack
	link   *channel.Endpoint
	unplug func() // ends what plug began
}

// startBox starts a guest on the other end of a stack's cable.
func startBox(t testing.TB, p *policy, streams, flows int) (*box, *Stack) {
	t.Helper()
	s, c := startStack(t, p, streams, flows)
	return plugIn(t, c), s
}

// plugIn starts a guest on a cable. It ends with the test, before the stack does.
func plugIn(t testing.TB, c *cable) *box {
	t.Helper()
	b := &box{link: channel.New(1024, protocol.NetworkMTU+etherLen, tcpip.LinkAddress(guestMAC[:]))}
	b.Stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{networkv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, transportudp.NewProtocol, icmp.NewProtocol4},
	})
	if err := b.CreateNIC(nic, ethernet.New(b.link)); err != nil {
		t.Fatal(err)
	}
	err := b.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          header.IPv4ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(guestIP), PrefixLen: protocol.NetworkBits},
	}, stack.AddressProperties{})
	if err != nil {
		t.Fatal(err)
	}
	b.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, Gateway: tcpip.AddrFrom4(gatewayIP), NIC: nic}})
	b.plug(c)
	t.Cleanup(func() {
		b.unplug()
		b.Destroy()
	})
	return b
}

// plug connects the guest to a cable.
func (b *box) plug(c *cable) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { b.transmit(ctx, c) })
	work.Go(func() { b.receive(ctx, c) })
	b.unplug = func() {
		cancel()
		work.Wait()
	}
}

func (b *box) transmit(ctx context.Context, c *cable) {
	for {
		p := b.link.ReadContext(ctx)
		if p == nil {
			return
		}
		select {
		case c.toHost <- slices.Concat(p.AsSlices()...):
		case <-c.cut:
		case <-ctx.Done():
		}
		p.DecRef()
	}
}

func (b *box) receive(ctx context.Context, c *cable) {
	for {
		select {
		case f := <-c.toGuest:
			p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(f)})
			b.link.InjectInbound(0, p)
			p.DecRef()
		case <-ctx.Done():
			return
		}
	}
}

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}

// dial connects the guest.
func (b *box) dial(t testing.TB, to netip.AddrPort) (*gonet.TCPConn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := gonet.DialContextTCP(ctx, b.Stack, full(to), header.IPv4ProtocolNumber)
	if err == nil {
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
	}
	return c, err
}

// dialUDP makes a socket of the guest for datagrams to one address.
func (b *box) dialUDP(t testing.TB, to netip.AddrPort) *gonet.UDPConn {
	t.Helper()
	remote := full(to)
	c, err := gonet.DialUDP(b.Stack, nil, &remote, header.IPv4ProtocolNumber)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return c
}
