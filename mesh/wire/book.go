package wire

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"agentbox/mesh/identity"
)

// Bounds of the address book: a laptop is at home, at work and on a phone, and a member may
// announce any address.
const (
	maxAddresses = 8
	maxPeers     = 4096
)

// addressBook has the addresses at which peers were seen or are said to be, in the order in which
// they are worth trying: the last one that worked comes first. The slices in it never change. learned is
// called when there is one that was not there before.
type addressBook struct {
	of      map[identity.PeerID][]netip.AddrPort
	learned func()
}

func newAddressBook(learned func()) addressBook {
	if learned == nil {
		learned = func() {}
	}
	return addressBook{map[identity.PeerID][]netip.AddrPort{}, learned}
}

func (ab addressBook) confirm(id identity.PeerID, a netip.AddrPort) {
	rest := slices.DeleteFunc(slices.Clone(ab.of[id]), func(o netip.AddrPort) bool { return o == a })
	ab.set(id, append([]netip.AddrPort{a}, rest...))
}

// learn adds addresses that somebody named. They displace others that somebody named, but not the
// one that worked last.
func (ab addressBook) learn(id identity.PeerID, addresses []netip.AddrPort) {
	known := slices.Clone(ab.of[id])
	for _, a := range addresses {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		if !a.IsValid() || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() || slices.Contains(known, a) {
			continue
		}
		known = slices.Insert(known, min(1, len(known)), a)
	}
	ab.set(id, known)
}

func (ab addressBook) set(id identity.PeerID, addresses []netip.AddrPort) {
	before := ab.of[id]
	if len(addresses) == 0 || before == nil && len(ab.of) >= maxPeers {
		return
	}
	ab.of[id] = addresses[:min(len(addresses), maxAddresses)]
	if slices.ContainsFunc(ab.of[id], func(a netip.AddrPort) bool { return !slices.Contains(before, a) }) {
		ab.learned()
	}
}

func (ab addressBook) keep(wanted func(identity.PeerID) bool) {
	maps.DeleteFunc(ab.of, func(id identity.PeerID, _ []netip.AddrPort) bool { return !wanted(id) })
}

// AddAddresses adds possible addresses of a peer. Those of peers that are no members are ignored.
func (n *Node) AddAddresses(id identity.PeerID, addresses ...netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id != n.self && n.list.Admits(id, time.Now()) {
		n.book.learn(id, addresses)
	}
}

// Addresses returns the possible addresses of a peer, the last one that worked first.
func (n *Node) Addresses(id identity.PeerID) []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.book.of[id])
}
