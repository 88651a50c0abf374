package gossip

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/mesh/identity"
)

// seekPeriod is how often absent members are looked for, and this machine is checked for new
// addresses and for sleep.
const (
	seekPeriod = 3 * time.Second
	// sleepThreshold is by how much the wall clock gets ahead of the monotonic one when the machine
	// slept.
	sleepThreshold = 5 * time.Second
	// maxSeeks bounds how many absent peers are looked for at the same time, seeksPerRound how many
	// per round.
	maxSeeks      = 8
	seeksPerRound = 16
)

// seeker looks for members that are not here: memberlist itself gives up on peers that were absent
// for long, and on both halves of a partition. It also notices when this machine slept or has other
// addresses.
//
// Sleep shows in the two clocks of this one process, as the monotonic one stands still meanwhile.
func (g *Gossip) seeker() {
	tick := time.NewTicker(seekPeriod)
	defer tick.Stop()
	last := time.Now()
	addresses := listenAddresses(g.cfg.Node.Addr())
	for g.ctx.Err() == nil {
		now := time.Now()
		slept := now.Round(0).Sub(last.Round(0))-now.Sub(last) > sleepThreshold
		last = now
		if current := listenAddresses(g.cfg.Node.Addr()); slept || !slices.Equal(current, addresses) {
			addresses = current
			g.cfg.Log.Info("mesh: this machine slept or changed its network, reconnecting", "slept", slept, "addresses", current)
			g.transport.dropAll()
			_ = g.Announce(func(m *Meta) { m.Addresses = current })
		}
		g.seek()
		select {
		case <-tick.C:
		case <-g.nudge:
			time.Sleep(50 * time.Millisecond) // many changes of the list are one
		case <-g.ctx.Done():
		}
	}
}

// Seek looks for absent members now, because one can probably be reached. It does not wait.
func (g *Gossip) Seek() { g.nudge.Notify() }

// seek asks some absent members, drawn at random among those with a known address, to join us, and
// waits for them. Not all of them: in a team of hundreds, most may be asleep.
func (g *Gossip) seek() {
	absent := g.absent()
	rand.Shuffle(len(absent), func(i, j int) { absent[i], absent[j] = absent[j], absent[i] })
	var all errgroup.Group
	all.SetLimit(maxSeeks)
	for _, id := range absent[:min(len(absent), seeksPerRound)] {
		all.Go(func() error {
			if g.ctx.Err() == nil {
				// It fails for a peer that sleeps, and is repeated.
				_, _ = g.members.Join([]string{id.String() + "/" + virtualAddr(id).String()})
			}
			return nil
		})
	}
	_ = all.Wait()
}

// absent lists members that are not here but have a known address.
func (g *Gossip) absent() []identity.PeerID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []identity.PeerID
	now := time.Now()
	for _, m := range g.list.Members() {
		p := g.peers[m.ID]
		if m.ID == g.cfg.Node.Self() || !m.Active(now) || p != nil && p.Online {
			continue
		}
		if len(g.cfg.Node.Addresses(m.ID)) > 0 {
			out = append(out, m.ID)
		}
	}
	return out
}

// listenAddresses returns where a node can be reached that listens at an address: there, or, if
// that is unspecified, at the addresses of this machine's interfaces, the default one first.
func listenAddresses(at netip.AddrPort) []netip.AddrPort {
	if !at.Addr().IsUnspecified() {
		return []netip.AddrPort{at}
	}
	var out []netip.AddrPort
	add := func(ip netip.Addr) {
		a := netip.AddrPortFrom(ip.Unmap(), at.Port())
		if a.Addr().IsGlobalUnicast() && len(out) < MaxAddresses && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		// A connected UDP socket has sent nothing, and knows its source address.
		if c, err := net.Dial("udp", far); err == nil {
			add(c.LocalAddr().(*net.UDPAddr).AddrPort().Addr())
			c.Close()
		}
	}
	interfaces, _ := net.InterfaceAddrs()
	for _, a := range interfaces {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			add(p.Addr())
		}
	}
	if len(out) == 0 {
		out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()))
	}
	return out
}

// Addresses returns where this node can be reached, as announced.
func (g *Gossip) Addresses() []netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.meta.Addresses)
}
