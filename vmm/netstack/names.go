package netstack

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"

	"agentbox/vmm/guest/protocol"
)

// names maps each allowed name to a synthetic address of the name block. The address is a hash of
// the name, so that a box that is restored or forked finds the same one under its new stack. If two
// names have the same hash, the later one gets the next free address. The least recently queried
// name is evicted when there are too many; flows to its address then have no name until the box
// queries it again.
type names struct {
	limit int

	mu     sync.Mutex // guards the three below, which have the same elements
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	recent list.List // of named, the most recently queried in front
}

// named is a name with its address.
type named struct {
	name string
	addr netip.Addr
}

const (
	// maxNames bounds the memory of names to about 8 MiB.
	maxNames = 16384
	// firstNameAddr leaves the beginning of the block to the two ends of the cable.
	firstNameAddr = 256
)

// newNames makes an empty table. limit must be less than the number of addresses in the block.
func newNames(limit int) *names {
	return &names{limit: limit, byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{}}
}

// addrOf gives the address of a name, a new one where need be. name is canonical and allowed. The
// name counts as asked for just now.
func (n *names) addrOf(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.recent.MoveToFront(e)
		return e.Value.(named).addr
	}
	if n.recent.Len() >= n.limit {
		oldest := n.recent.Remove(n.recent.Back()).(named)
		delete(n.byName, oldest.name)
		delete(n.byAddr, oldest.addr)
	}
	addr := n.freeAddr(name)
	e := n.recent.PushFront(named{name, addr})
	n.byName[name], n.byAddr[addr] = e, e
	return addr
}

// freeAddr returns the first free address from the name's hash on. There is one, since the block is
// larger than the table. mu is held.
func (n *names) freeAddr(name string) netip.Addr {
	digest := sha256.Sum256([]byte(name))
	size := uint32(1)<<(32-protocol.NameBlock.Bits()) - firstNameAddr - 1 // without the block's last address
	base := protocol.NameBlock.Addr().As4()
	for i := binary.BigEndian.Uint32(digest[:]) % size; ; i = (i + 1) % size {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+firstNameAddr+i)
		if addr := netip.AddrFrom4(b); n.byAddr[addr] == nil {
			return addr
		}
	}
}

// nameOf returns the name of an address, "" if it has none. Only queries make a name recent.
func (n *names) nameOf(addr netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byAddr[addr]; e != nil {
		return e.Value.(named).name
	}
	return ""
}
