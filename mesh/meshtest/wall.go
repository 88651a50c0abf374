package meshtest

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// Wall is what a partition is made with: relays of which some pass nothing while it is shut.
type Wall struct{ shut atomic.Bool }

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
	r := &relay{wall: w, through: through, listen: listen, to: to, clients: map[netip.AddrPort]*net.UDPConn{}}
	r.tasks.Go(r.forward)
	t.Cleanup(r.close)
	return listen.LocalAddr().(*net.UDPAddr).AddrPort()
}

// relay passes datagrams between one node and its clients, until it is closed. tasks has a
// goroutine for each direction and client; mu guards clients.
type relay struct {
	wall    *Wall
	through bool
	listen  *net.UDPConn
	to      netip.AddrPort
	tasks   sync.WaitGroup

	mu      sync.Mutex
	clients map[netip.AddrPort]*net.UDPConn
}

// passes tells whether a datagram goes through now. One that does not is lost, as in a network.
func (r *relay) passes() bool { return !r.through || !r.wall.shut.Load() }

func (r *relay) forward() {
	b := make([]byte, 2048)
	for {
		n, from, err := r.listen.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if c := r.client(from); c != nil && r.passes() {
			_, _ = c.Write(b[:n])
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

func (r *relay) back(c *net.UDPConn, to netip.AddrPort) {
	b := make([]byte, 2048)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if r.passes() {
			_, _ = r.listen.WriteToUDPAddrPort(b[:n], to)
		}
	}
}

func (r *relay) close() {
	r.listen.Close()
	r.mu.Lock()
	for _, c := range r.clients {
		c.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}
