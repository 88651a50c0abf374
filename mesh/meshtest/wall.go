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

// Wall is what a partition is made with: relays of which some pass nothing while it is shut.
type Wall struct {
	shut atomic.Bool
	// Weather is what happens to packets that pass through the wall. It is set before Relay.
	Weather Weather
}

// Weather is how often, of 1, something happens to a packet on its way: it does not come, or comes
// twice, or after the next one, or with a bit turned.
type Weather struct {
	Lost, Twice, Late, Broken float64
}

// Shut shuts the wall, or opens it.
func (w *Wall) Shut(shut bool) { w.shut.Store(shut) }

// Relay gives an address at which a node can be reached, through the wall or beside it. Each client
// has a socket of its own toward the node, so that the node tells clients apart.
func (w *Wall) Relay(t testing.TB, to netip.AddrPort, through bool) netip.AddrPort {
	t.Helper()
	listen, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{weather: w.Weather, wall: w, through: through, listen: listen, to: to, clients: map[netip.AddrPort]*net.UDPConn{}}
	r.tasks.Go(r.forward)
	t.Cleanup(r.close)
	return listen.LocalAddr().(*net.UDPAddr).AddrPort()
}

// relay passes datagrams between one node and its clients, until it is closed. tasks has a
// goroutine for each direction and client; mu guards clients.
type relay struct {
	wall    *Wall
	weather Weather
	through bool
	// listen is where clients send to, to the node behind it.
	listen *net.UDPConn
	to     netip.AddrPort
	tasks  sync.WaitGroup

	mu      sync.Mutex
	clients map[netip.AddrPort]*net.UDPConn
}

// passes tells whether a datagram goes through now. One that does not is lost, as in a network.
func (r *relay) passes() bool { return !r.through || !r.wall.shut.Load() }

// forward passes what clients send to the node, until the socket is closed. Each client's packets
// go through weather of its own, as they take ways of their own.
func (r *relay) forward() {
	b := make([]byte, 2048)
	ways := map[*net.UDPConn]*way{}
	for {
		n, from, err := r.listen.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if c := r.client(from); c != nil && r.passes() {
			if ways[c] == nil {
				ways[c] = r.way()
			}
			ways[c].pass(b[:n], func(b []byte) { _, _ = c.Write(b) })
		}
	}
}

// client is the socket toward the node that stands for a client, made when its first datagram
// comes.
func (r *relay) client(from netip.AddrPort) *net.UDPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clients[from]
	if c == nil {
		var err error
		if c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(r.to)); err != nil {
			return nil
		}
		r.clients[from] = c
		r.tasks.Go(func() { r.back(c, from) })
	}
	return c
}

// back passes what the node sends to one client, until that client's socket is closed.
func (r *relay) back(c *net.UDPConn, to netip.AddrPort) {
	b := make([]byte, 2048)
	way := r.way()
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if r.passes() {
			way.pass(b[:n], func(b []byte) { _, _ = r.listen.WriteToUDPAddrPort(b, to) })
		}
	}
}

// way is one direction between two sockets, with the weather on it.
type way struct {
	weather Weather
	rand    *rand.Rand
	late    []byte // nil: none is held back
}

// way begins a direction. Its chances are drawn from the node's port, which tests do not choose:
// what happens to which packet differs from run to run.
func (r *relay) way() *way {
	return &way{weather: r.weather, rand: rand.New(rand.NewPCG(1, uint64(r.to.Port())))}
}

// happens draws whether one thing happens to one packet.
func (w *way) happens(often float64) bool { return often > 0 && w.rand.Float64() < often }

// pass sends a packet as the weather is: at most one thing happens to each. One that is late is
// held back until the next one is through, so the last of all may never come.
func (w *way) pass(b []byte, send func([]byte)) {
	switch {
	case w.happens(w.weather.Lost):
		return
	case w.happens(w.weather.Broken):
		b[w.rand.IntN(len(b))] ^= 1 << w.rand.IntN(8)
	case w.happens(w.weather.Twice):
		send(b)
	case w.late == nil && w.happens(w.weather.Late):
		w.late = bytes.Clone(b)
		return
	}
	send(b)
	if w.late != nil {
		send(w.late)
		w.late = nil
	}
}

// close ends all sockets and waits for their goroutines.
func (r *relay) close() {
	r.listen.Close()
	r.mu.Lock()
	for _, c := range r.clients {
		c.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}
