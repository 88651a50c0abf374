package wire

import (
	"net/netip"
	"slices"
	"sync"

	"agentbox/mesh/identity"
)

// Bounds of what is remembered of where peers are: a laptop is at home, at work and on a phone, and
// a member may name what it likes.
const (
	maxAddresses = 8
	maxPeers     = 4096
)

// book says where peers were seen, or are said to be, in the order in which they are worth trying:
// the last address that worked comes first. mu guards it; the slices in it are never changed.
type book struct {
	mu    sync.Mutex
	peers map[identity.PeerID][]netip.AddrPort
}

func newBook() *book { return &book{peers: map[identity.PeerID][]netip.AddrPort{}} }

// confirm remembers an address that worked.
func (b *book) confirm(id identity.PeerID, a netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(b.peers[id]), func(o netip.AddrPort) bool { return o == a })
	b.set(id, append([]netip.AddrPort{a}, rest...))
}

// learn remembers addresses that somebody named. They push out others that somebody named, and
// never the one that worked last.
func (b *book) learn(id identity.PeerID, addresses []netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := slices.Clone(b.peers[id])
	for _, a := range addresses {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		if !a.IsValid() || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() || slices.Contains(known, a) {
			continue
		}
		known = slices.Insert(known, min(1, len(known)), a)
	}
	b.set(id, known)
}

// set bounds what is kept; b.mu is held.
func (b *book) set(id identity.PeerID, addresses []netip.AddrPort) {
	if len(addresses) == 0 || b.peers[id] == nil && len(b.peers) >= maxPeers {
		return
	}
	b.peers[id] = addresses[:min(len(addresses), maxAddresses)]
}

// addresses gives a copy.
func (b *book) addresses(id identity.PeerID) []netip.AddrPort {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.peers[id])
}

// keep forgets the peers that are not wanted. wanted is asked without the lock, as it takes the
// Node's.
func (b *book) keep(wanted func(identity.PeerID) bool) {
	b.mu.Lock()
	ids := make([]identity.PeerID, 0, len(b.peers))
	for id := range b.peers {
		ids = append(ids, id)
	}
	b.mu.Unlock()
	for _, id := range ids {
		if !wanted(id) {
			b.mu.Lock()
			delete(b.peers, id)
			b.mu.Unlock()
		}
	}
}

// Learn says where a peer may be. What is said of peers that are no members is not taken.
func (n *Node) Learn(id identity.PeerID, addresses ...netip.AddrPort) {
	if id != n.self && n.admits(id) {
		n.book.learn(id, addresses)
	}
}

// Addresses says where a peer may be, the last address that worked first.
func (n *Node) Addresses(id identity.PeerID) []netip.AddrPort { return n.book.addresses(id) }
