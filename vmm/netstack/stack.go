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

// How many TCP connections, those that wait for a decision included, and UDP flows a box may have
// open at once. With all connections open and their buffers full, a stack takes about 300 MiB.
const (
	maxStreams = 4096
	maxFlows   = 1024
)

// Stack is the network of one box, from New to Close. Its methods may be called from any goroutine.
// One goroutine reads the cable (Start), one for each connection and flow is in the handler, and
// one for each DNS query answers it. All are in work, and Close waits for them.
type Stack struct {
	card     *card
	handler  Handler
	attempts *attempts
	names    *names
	resolver *resolver
	tcpip    *stack.Stack
	streams  streams
	flows    flows

	ctx    context.Context // of all calls to the handler
	cancel context.CancelFunc
	work   sync.WaitGroup // all goroutines, those in the handler included
	close  sync.Once
}

// New makes the network at the host's end of a link. It reads nothing and calls nothing before
// Start. The link belongs to the Stack unless New fails, which means that gVisor's stack refused
// its configuration.
func New(link vmm.Link, h Handler) (*Stack, error) { return newStack(link, h, maxStreams, maxFlows) }

func newStack(link vmm.Link, h Handler, streams, flows int) (*Stack, error) {
	s := &Stack{card: newCard(link), handler: h, attempts: newAttempts(h.Attempt), names: newNames(maxNames)}
	s.resolver = &resolver{names: s.names, lookup: h.Lookup, attempts: s.attempts}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.assemble(streams, flows); err != nil {
		s.cancel()
		return nil, fmt.Errorf("make the box's network: %w", err)
	}
	return s, nil
}

// nic is the number of the only interface of gVisor's stack.
const nic = 1

// assemble makes gVisor's stack with IPv4, TCP and UDP. Its one interface is at the other end of
// whatever the guest connects to: in promiscuous mode it takes packets for every address, and with
// spoofing it answers from every address. ARP and ICMP do not reach it: answer.go makes the
// answers.
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

// Start starts to read the link, until it is cut. Frames wait until then, so that the policy of the
// box is in place first. It is called once.
func (s *Stack) Start() { s.work.Go(s.readFrames) }

// Close ends the context of every call to the handler, cuts the link, resets every connection, and
// returns when all calls have returned. Only then does it destroy gVisor's stack, which nobody uses
// any more. Idempotent.
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

// wait returns when all goroutines have. Meanwhile it aborts handshakes that were about to begin.
func (s *Stack) wait() {
	const interval = 10 * time.Millisecond
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
		case <-time.After(interval):
		}
	}
}
