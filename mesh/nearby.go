package mesh

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/mesh/identity"
	"agentbox/mesh/lan"
	"agentbox/mesh/wire"
)

// Bounds of what the local network can make us try: anybody there can claim any number of
// addresses.
const (
	maxNearbyTries      = 4
	nearbyRetryInterval = 10 * time.Second // until an address is tried once more
	maxNearbyTried      = 256              // addresses that are remembered
	nearbyTimeout       = 3 * time.Second  // for one to answer
)

// nearby tries the addresses at which members are said to be on the local network. Anybody may say
// so, so an address gets one handshake now and then, which proves whether a member answers, and
// nothing else.
type nearby struct {
	m      *Mesh
	r      *running
	ctx    context.Context
	beacon *lan.Beacon
	// tried is when each address was last tried; only the beacon's calls of found use it.
	tried  map[netip.AddrPort]time.Time
	tries  errgroup.Group
	met    atomic.Uint64 // members that answered
	failed atomic.Uint64 // addresses at which none did
}

// startNearby looks for members on the local network until ctx ends. The caller closes it.
func (m *Mesh) startNearby(ctx context.Context, r *running) *nearby {
	n := &nearby{m: m, r: r, ctx: ctx, tried: map[netip.AddrPort]time.Time{}}
	n.tries.SetLimit(maxNearbyTries)
	n.beacon = lan.Start(lan.Config{Service: lan.Service(m.roster.List().Root()), Listen: r.node.Addr(), Log: m.cfg.Log, Found: n.found})
	return n
}

// close waits for the attempts under way; ctx has ended.
func (n *nearby) close() {
	n.beacon.Close()
	_ = n.tries.Wait()
}

// found tries an address once in a while, a few at the same time. Addresses that are not tried now
// are announced again.
func (n *nearby) found(a netip.AddrPort) {
	maps.DeleteFunc(n.tried, func(_ netip.AddrPort, at time.Time) bool { return time.Since(at) > nearbyRetryInterval })
	if _, again := n.tried[a]; again || len(n.tried) >= maxNearbyTried || n.known(a) {
		return
	}
	if n.tries.TryGo(func() error { return n.try(a) }) {
		n.tried[a] = time.Now()
	}
}

func (n *nearby) known(a netip.AddrPort) bool {
	return slices.ContainsFunc(n.m.OnlinePeers(), func(id identity.PeerID) bool {
		return slices.Contains(n.r.node.Addresses(id), a)
	})
}

// try finds out whether a member answers. If so, the node remembers the address, and gossip looks
// for absent members again. The service does not matter; every member speaks Roster.
func (n *nearby) try(a netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(n.ctx, nearbyTimeout)
	defer cancel()
	c, err := n.r.node.DialAddr(ctx, a, wire.Roster)
	if err != nil {
		n.failed.Add(1)
		return err
	}
	n.met.Add(1)
	n.m.cfg.Log.Info("mesh: a member is on this network", "peer", c.Peer().Short(), "address", a)
	n.r.gossip.Seek()
	return c.Close()
}
