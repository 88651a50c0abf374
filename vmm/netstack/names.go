package netstack

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"

	"agentbox/vmm/guest/protocol"
)

// names gives each allowed name one address of the name block. The address follows from the name,
// so that a box that goes on under a new stack, or its twin, finds the same; where two names fall
// on one address the later takes the next that is free. The name asked for the longest time ago is
// forgotten when there are too many. A forgotten name costs the box a new lookup: flows to its old
// address arrive without a name.
type names struct {
	most int

	// Guards the three below, which hold the same elements.
	mu     sync.Mutex
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	recent list.List // of named, the one asked for last in front
}

// named is one name with its address; both are fixed.
type named struct {
	name string
	addr netip.Addr
}

const (
	// mostNames bounds the memory that questions take: about 8 MiB.
	mostNames = 16384
	// firstName leaves the beginning of the block to the cable itself.
	firstName = 256
)

// newNames is empty; most must be less than the block has addresses.
func newNames(most int) *names {
	return &names{most: most, byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{}}
}

// address gives the address of a name, a new one where need be. name is canonical and allowed. The
// name counts as asked for just now.
func (n *names) address(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.recent.MoveToFront(e)
		return e.Value.(named).addr
	}
	if n.recent.Len() >= n.most {
		oldest := n.recent.Remove(n.recent.Back()).(named)
		delete(n.byName, oldest.name)
		delete(n.byAddr, oldest.addr)
	}
	addr := n.place(name)
	e := n.recent.PushFront(named{name, addr})
	n.byName[name], n.byAddr[addr] = e, e
	return addr
}

// place finds a free address, beginning where the name's hash says. There is one: the block is
// larger than the table. mu is held.
func (n *names) place(name string) netip.Addr {
	digest := sha256.Sum256([]byte(name))
	size := uint32(1)<<(32-protocol.NameBlock.Bits()) - firstName - 1 // the block's last address is left out too
	base := protocol.NameBlock.Addr().As4()
	for i := binary.BigEndian.Uint32(digest[:]) % size; ; i = (i + 1) % size {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+firstName+i)
		if addr := netip.AddrFrom4(b); n.byAddr[addr] == nil {
			return addr
		}
	}
}

// of gives the name of an address, "" when it has none. It does not make the name a recent one:
// only questions do.
func (n *names) of(addr netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byAddr[addr]; e != nil {
		return e.Value.(named).name
	}
	return ""
}
