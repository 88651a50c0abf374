package mesh

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"agentbox/mesh/identity"
	"agentbox/mesh/lan"
	"agentbox/mesh/wire"
)

// Bounds of what the local network can make us try: anybody there can claim any number of
// addresses.
const (
	nearbyWaiting = 32 // addresses
	nearbyAtOnce  = 4
	nearbyAgain   = 10 * time.Second // until an address is tried once more
	nearbyKnown   = 256              // addresses that are remembered
	nearbyTime    = 3 * time.Second  // for one to answer
)

// nearby tries the addresses at which members are said to be on the local network. Anybody may say
// so, so an address is worth one handshake now and then, and nothing else: whether a member answers
// is what the handshake proves.
type nearby struct {
	m      *Mesh
	r      *running
	beacon *lan.Beacon
	found  chan netip.AddrPort
	met    atomic.Uint64 // members that answered
	failed atomic.Uint64 // addresses at which none did
}

// lookAround begins to look for members on the local network, until ctx is done. Callers close what
// it gives.
func (m *Mesh) lookAround(ctx context.Context, r *running) *nearby {
	n := &nearby{m: m, r: r, found: make(chan netip.AddrPort, nearbyWaiting)}
	n.beacon = lan.Start(lan.Config{
		Service: lan.Service(m.roster.List().Root()), Listen: r.node.Addr(), Log: m.cfg.Log,
		Found: func(a netip.AddrPort) {
			select {
			case n.found <- a:
			default: // it is said again
			}
		},
	})
	r.tasks.Go(func() { n.run(ctx) })
	return n
}

// run tries each address once in a while, a few at once.
func (n *nearby) run(ctx context.Context) {
	tried := map[netip.AddrPort]time.Time{}
	limit := make(chan struct{}, nearbyAtOnce)
	for {
		var a netip.AddrPort
		select {
		case a = <-n.found:
		case <-ctx.Done():
			return
		}
		for old, at := range tried {
			if time.Since(at) > nearbyAgain {
				delete(tried, old)
			}
		}
		if _, again := tried[a]; again || len(tried) >= nearbyKnown || n.known(a) {
			continue
		}
		tried[a] = time.Now()
		select {
		case limit <- struct{}{}:
		case <-ctx.Done():
			return
		}
		n.r.tasks.Go(func() {
			defer func() { <-limit }()
			n.try(ctx, a)
		})
	}
}

// known tells whether somebody who is here is at an address.
func (n *nearby) known(a netip.AddrPort) bool {
	return slices.ContainsFunc(n.m.Here(), func(id identity.PeerID) bool {
		return slices.Contains(n.r.node.Addresses(id), a)
	})
}

// try finds out whether a member answers. The node remembers the address then, and gossip looks for
// absent members again. The service does not matter; Roster is one that every member speaks.
func (n *nearby) try(ctx context.Context, a netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, nearbyTime)
	defer cancel()
	c, err := n.r.node.DialAddr(ctx, a, wire.Roster)
	if err != nil {
		n.failed.Add(1)
		return
	}
	n.met.Add(1)
	n.m.cfg.Log.Info("mesh: a member is on this network", "peer", c.Peer().Short(), "address", a)
	_ = c.Close()
	n.r.gossip.Seek()
}
