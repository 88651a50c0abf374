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

// Wall makes a partition: relays of which some pass nothing while it is shut.
type Wall struct {
	shut atomic.Bool
	// Weather is what happens to packets that pass through the wall. It is set before Relay.
	Weather Weather
}

// Weather is how often, of 1, something happens to a packet: it is lost, comes twice, comes after
// the next one, or has a bit flipped.
type Weather struct {
	Lost, Twice, Late, Broken float64
}

// Shut shuts the wall, or opens it.
func (w *Wall) Shut(shut bool) { w.shut.Store(shut) }

// Relay returns an address at which a node can be reached, through the wall or beside it. Each
// client has its own socket toward the node, so that the node tells clients apart.
func (w *Wall) Relay(t testing.TB, to netip.AddrPort, through bool) netip.AddrPort {
	t.Helper()
	listen, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { w.forward(listen, to, through) })
	t.Cleanup(func() {
		listen.Close()
		tasks.Wait()
	})
	return listen.LocalAddr().(*net.UDPAddr).AddrPort()
}

// forward relays packets between clients and the node until listen is closed. The packets of each
// client, in each direction, have their own weather, as they take their own paths.
func (w *Wall) forward(listen *net.UDPConn, to netip.AddrPort, through bool) {
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
			c = w.way(to, through, func(b []byte) { _, _ = node.Write(b) })
			clients[from] = c
			back.Go(func() {
				b := make([]byte, 2048)
				home := w.way(to, through, func(b []byte) { _, _ = listen.WriteToUDPAddrPort(b, from) })
				for n, err := node.Read(b); err == nil; n, err = node.Read(b) {
					home.pass(b[:n])
				}
			})
		}
		c.pass(b[:n])
	}
}

// relayPath is one direction between two sockets, with its weather.
type relayPath struct {
	wall    *Wall
	through bool
	send    func([]byte)
	rand    *rand.Rand
	late    []byte // nil: none is held back
}

// way starts a direction. Its random choices depend on the node's port, which tests do not choose:
// what happens to which packet differs between runs.
func (w *Wall) way(to netip.AddrPort, through bool, send func([]byte)) *relayPath {
	return &relayPath{wall: w, through: through, send: send, rand: rand.New(rand.NewPCG(1, uint64(to.Port())))}
}

func (w *relayPath) happens(often float64) bool { return often > 0 && w.rand.Float64() < often }

// pass sends a packet as the weather is: at most one thing happens to each. One that meets the shut
// wall is lost, as in a network. A late one is held back until the next one is through, so the last
// of all may never come.
func (w *relayPath) pass(b []byte) {
	weather := w.wall.Weather
	switch {
	case w.through && w.wall.shut.Load(), w.happens(weather.Lost):
		return
	case w.happens(weather.Broken):
		b[w.rand.IntN(len(b))] ^= 1 << w.rand.IntN(8)
	case w.happens(weather.Twice):
		w.send(b)
	case w.late == nil && w.happens(weather.Late):
		w.late = bytes.Clone(b)
		return
	}
	w.send(b)
	if w.late != nil {
		w.send(w.late)
		w.late = nil
	}
}
