package meshtest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// Partition makes a network partition: relays, some of which pass nothing while it is cut.
type Partition struct {
	cut atomic.Bool
	// Faults is what happens to packets that cross the partition. It is set before Relay.
	Faults PacketFaults
}

// PacketFaults are the probabilities that a packet is lost, comes twice, comes after the next one,
// or has a bit flipped.
type PacketFaults struct {
	Lost, Duplicated, Reordered, Corrupted float64
}

// Cut cuts the network at the partition, or restores it.
func (p *Partition) Cut(cut bool) { p.cut.Store(cut) }

// Relay returns an address at which a node can be reached, across the partition or beside it. Each
// client has its own socket toward the node, so that the node tells clients apart.
func (p *Partition) Relay(t testing.TB, to netip.AddrPort, through bool) netip.AddrPort {
	t.Helper()
	listen, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { p.forward(listen, to, through) })
	t.Cleanup(func() {
		listen.Close()
		tasks.Wait()
	})
	return listen.LocalAddr().(*net.UDPAddr).AddrPort()
}

// forward relays packets between clients and the node until listen is closed. The packets of each
// client, in each direction, have their own weather, as they take their own paths.
func (p *Partition) forward(listen *net.UDPConn, to netip.AddrPort, through bool) {
	clients := map[netip.AddrPort]*relayPath{}
	var back sync.WaitGroup
	defer back.Wait()
	b := make([]byte, 2048)
	for {
		n, from, err := listen.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		c := clients[from]
		if c == nil {
			node, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
			if err != nil {
				continue
			}
			defer node.Close()
			c = p.way(to, through, func(b []byte) { _, _ = node.Write(b) })
			clients[from] = c
			back.Go(func() {
				b := make([]byte, 2048)
				home := p.way(to, through, func(b []byte) { _, _ = listen.WriteToUDPAddrPort(b, from) })
				for n, err := node.Read(b); err == nil; n, err = node.Read(b) {
					home.pass(b[:n])
				}
			})
		}
		c.pass(b[:n])
	}
}

// relayPath is one direction between two sockets, with its faults.
type relayPath struct {
	partition *Partition
	through   bool
	send      func([]byte)
	rand      *rand.Rand
	late      []byte // nil: none is held back
}

// way starts a direction. Its random choices depend on the node's port, which tests do not choose:
// what happens to which packet differs between runs.
func (p *Partition) way(to netip.AddrPort, through bool, send func([]byte)) *relayPath {
	return &relayPath{partition: p, through: through, send: send, rand: rand.New(rand.NewPCG(1, uint64(to.Port())))}
}

func (r *relayPath) happens(often float64) bool { return often > 0 && r.rand.Float64() < often }

// pass sends a packet, to which at most one of the faults happens. One that crosses the partition
// while it is cut is lost. A reordered one is held back until the next one is through, so the last
// of all may never come.
func (r *relayPath) pass(b []byte) {
	faults := r.partition.Faults
	switch {
	case r.through && r.partition.cut.Load(), r.happens(faults.Lost):
		return
	case r.happens(faults.Corrupted):
		b[r.rand.IntN(len(b))] ^= 1 << r.rand.IntN(8)
	case r.happens(faults.Duplicated):
		r.send(b)
	case r.late == nil && r.happens(faults.Reordered):
		r.late = bytes.Clone(b)
		return
	}
	r.send(b)
	if r.late != nil {
		r.send(r.late)
		r.late = nil
	}
}
