package netstack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	networkv4 "gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	transportudp "gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"agentbox/vmm"
)

// What one box may have open at once: TCP connections, those about to be decided included, and UDP
// flows. With all connections open and their buffers full, a stack takes some 300 MiB.
const (
	mostStreams = 4096
	mostFlows   = 1024
)

// Stack is the network of one box, from New to Close. Its methods may be called from any goroutine.
// Goroutines: one reads the cable (Start), one for each connection and each flow is in the handler,
// one for each question that is being answered; all are in work, and Close waits for them.
type Stack struct {
	card     *card
	handler  Handler
	attempts *attempts
	names    *names
	resolver *resolver
	tcpip    *stack.Stack
	streams  streams
	flows    flows

	ctx    context.Context // of everything the handler does
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine of ours, those in the handler included
	close  sync.Once
}

// New makes the network at the host's end of a link. It reads nothing before Start. h.Attempt may
// be called as soon as Start was. An error means that gVisor's stack refused its configuration; the
// link stays the caller's then, and belongs to the Stack otherwise.
func New(link vmm.Link, h Handler) (*Stack, error) { return newStack(link, h, mostStreams, mostFlows) }

// newStack is New with other bounds.
func newStack(link vmm.Link, h Handler, streams, flows int) (*Stack, error) {
	s := &Stack{card: newCard(link), handler: h, attempts: newAttempts(h.Attempt), names: newNames(mostNames)}
	s.resolver = &resolver{names: s.names, lookup: h.Lookup, attempts: s.attempts}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.assemble(streams, flows); err != nil {
		s.cancel()
		return nil, fmt.Errorf("make the box's network: %w", err)
	}
	return s, nil
}

// nic is the number of the only card in gVisor's stack.
const nic = 1

// assemble makes gVisor's stack: IPv4, TCP and UDP, on one card that answers for every address
// there is. Promiscuous mode takes packets for every address, spoofing lets answers come from every
// address: the stack is at the other end of whatever the guest connects to. ICMP and ARP are left
// out, since we answer them on bytes.
func (s *Stack) assemble(streams, flows int) error {
	s.tcpip = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{networkv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocolCUBIC, transportudp.NewProtocol},
	})
	if err := s.tune(); err != nil {
		return err
	}
	steps := []tcpip.Error{
		s.tcpip.CreateNIC(nic, s.card),
		s.tcpip.SetPromiscuousMode(nic, true),
		s.tcpip.SetSpoofing(nic, true),
	}
	for _, err := range steps {
		if err != nil {
			return errors.New(err.String())
		}
	}
	s.tcpip.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	s.streams.init(s, streams)
	s.flows.init(s, flows)
	return nil
}

// Start reads the link until it is cut. Before it, the box's frames wait: its policy may be put in
// place first. It is called once.
func (s *Stack) Start() { s.work.Go(s.read) }

// Close cuts the link, resets every connection and ends the context of every call to the handler,
// and returns when all of them have returned. Idempotent. The order: no handler may begin anew,
// nothing more comes from the guest, what is open is reset; gVisor's stack is destroyed only when
// no goroutine uses it any more.
func (s *Stack) Close() error {
	var err error
	s.close.Do(func() {
		s.cancel()
		err = s.card.link.Close()
		s.streams.end()
		s.flows.end()
		s.wait()
		s.tcpip.Destroy()
		s.attempts.close()
	})
	return err
}

// wait returns when all our goroutines have. Handshakes that were about to begin are aborted as
// they appear.
func (s *Stack) wait() {
	const again = 10 * time.Millisecond
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	for {
		for _, e := range s.tcpip.RegisteredEndpoints() {
			e.Abort()
		}
		select {
		case <-done:
			return
		case <-time.After(again):
		}
	}
}
