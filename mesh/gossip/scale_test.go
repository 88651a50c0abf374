package gossip

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"agentbox/mesh/identity"
)

// nodesEnv is how many machines TestScale has.
const nodesEnv = "AGENTBOX_SIMULATED_NODES"

// TestScale runs memberlist as we configure it, on a simulated clock and a network in memory, for as
// many machines as AGENTBOX_SIMULATED_NODES says. It logs how long it takes until all know of all,
// of one change and of one that vanished, and how many bytes each machine sends for that.
func TestScale(t *testing.T) {
	nodes := 16
	if s := os.Getenv(nodesEnv); s != "" {
		var err error
		if nodes, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) { newSimulated(t, nodes).run() })
}

// simulated is machines in one process. Their latency is that of an office.
type simulated struct {
	t     *testing.T
	all   []*simulatedNode
	at    map[string]*simulatedNode
	start time.Time
}

const latency = 500 * time.Microsecond

type simulatedNode struct {
	o       *simulated
	address netip.AddrPort
	members *memberlist.Memberlist
	packets chan *memberlist.Packet
	streams chan net.Conn
	gone    atomic.Bool
	sent    atomic.Int64 // bytes, as on the cable
	updates sync.Map     // of a name: the newest meta that memberlist told of a change to
	key     ed25519.PrivateKey

	mu   sync.Mutex
	meta Meta
}

// overhead is what a datagram in our connections is more than its content, in bytes: QUIC's header
// and tag, UDP, IPv4 and Ethernet. The peer acknowledges it with a packet of little else.
const (
	overhead = 31 + 8 + 20 + 18
	ack      = 36 + 8 + 20 + 18
)

func newSimulated(t *testing.T, nodes int) *simulated {
	o := &simulated{t: t, at: map[string]*simulatedNode{}, start: time.Now()}
	for i := range nodes {
		seed := [ed25519.SeedSize]byte{byte(i), byte(i >> 8)}
		n := &simulatedNode{
			o: o, address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 7946), key: ed25519.NewKeyFromSeed(seed[:]),
			packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn),
		}
		n.meta = Meta{Sequence: 1, Addresses: []netip.AddrPort{n.address}}
		o.all, o.at[n.address.String()] = append(o.all, n), n
	}
	return o
}

// run has all machines switched on within a minute, each knowing some others, then nothing happen,
// then one announce a new catalogue, then one vanish.
func (s *simulated) run() {
	defer s.end()
	s.phase("all are switched on within a minute", func() {
		on := rand.Perm(len(s.all))
		for i, n := range on {
			s.all[n].begin()
			if i > 0 {
				known := s.all[on[rand.IntN(i)]]
				go func() { _, _ = s.all[n].members.Join([]string{known.name() + "/" + known.address.String()}) }()
			}
			time.Sleep(time.Minute / time.Duration(len(on)))
		}
	}, func(n *simulatedNode) bool { return n.members.NumMembers() == len(s.all) })
	time.Sleep(2 * time.Minute) // what is queued is sent
	s.phase("a minute in which nothing happens", func() { time.Sleep(time.Minute) }, func(*simulatedNode) bool { return true })
	who := s.all[len(s.all)/2]
	name := who.name()
	s.phase("one has a new catalogue", func() {
		who.mu.Lock()
		who.meta.Sequence++
		who.mu.Unlock()
		go func() { _ = who.members.UpdateNode(time.Second) }()
	}, func(n *simulatedNode) bool {
		b, _ := n.updates.Load(name)
		news, _ := b.([]byte)
		meta, err := DecodeMeta(news, who.key.Public().(ed25519.PublicKey))
		return err == nil && meta.Sequence == 2
	})
	time.Sleep(time.Minute)
	who.gone.Store(true)
	s.phase("one vanishes", func() {}, func(n *simulatedNode) bool { return n == who || n.members.NumMembers() == len(s.all)-1 })
}

func (s *simulated) end() {
	for _, n := range s.all {
		n.gone.Store(true)
		if n.members == nil {
			continue
		}
		if err := n.members.Shutdown(); err != nil {
			s.t.Error(err)
		}
	}
	time.Sleep(time.Minute) // what waits for answers ends
}

// phase does something, and says how long after that all know of it and what each has sent.
func (s *simulated) phase(what string, do func(), known func(*simulatedNode) bool) {
	for _, n := range s.all {
		n.sent.Store(0)
	}
	began := time.Now()
	do()
	done := time.Now()
	for waits := 0; ; waits++ {
		missing := 0
		for _, n := range s.all {
			if !known(n) {
				missing++
			}
		}
		if missing == 0 {
			break
		}
		if time.Since(done) > 10*time.Minute {
			s.t.Fatalf("%s: %d of %d machines do not know after ten minutes", what, missing, len(s.all))
		}
		time.Sleep(100 * time.Millisecond)
	}
	var sum, most int64
	for _, n := range s.all {
		sum, most = sum+n.sent.Load(), max(most, n.sent.Load())
	}
	took := time.Since(began)
	s.t.Logf("%d machines, %s: known to all %.1f s after; each sent %d bytes in %.1f s, %d a second, at most %d",
		len(s.all), what, time.Since(done).Seconds(), sum/int64(len(s.all)), took.Seconds(), int64(float64(sum)/float64(len(s.all))/max(took.Seconds(), 0.1)), most)
}

func (s *simulatedNode) name() string {
	return identity.PeerOf(s.key.Public().(ed25519.PublicKey)).String()
}

func (s *simulatedNode) begin() {
	cfg := localNetwork()
	cfg.Name, cfg.Transport, cfg.Delegate, cfg.Events, cfg.Logger = s.name(), s, s, s, log.New(io.Discard, "", 0)
	var err error
	if s.members, err = memberlist.Create(cfg); err != nil {
		s.o.t.Fatal(err)
	}
}

// What memberlist asks of its delegate.

func (s *simulatedNode) NodeMeta(int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.meta.Sign(s.key)
	if err != nil {
		s.o.t.Error(err)
	}
	return b
}
func (s *simulatedNode) NotifyMsg([]byte)                {}
func (s *simulatedNode) GetBroadcasts(int, int) [][]byte { return nil }
func (s *simulatedNode) LocalState(bool) []byte          { return nil }
func (s *simulatedNode) MergeRemoteState([]byte, bool)   {}

// What memberlist tells of others. A Node may be read in here only: memberlist goes on to change it.

func (s *simulatedNode) NotifyJoin(*memberlist.Node)  {}
func (s *simulatedNode) NotifyLeave(*memberlist.Node) {}
func (s *simulatedNode) NotifyUpdate(m *memberlist.Node) {
	s.updates.Store(m.Name, bytes.Clone(m.Meta))
}

// And of its network.

var errNobody = errors.New("nobody answers")

func (s *simulatedNode) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return s.address.Addr().AsSlice(), int(s.address.Port()), nil
}

func (s *simulatedNode) WriteTo(b []byte, address string) (time.Time, error) {
	return s.WriteToAddress(b, memberlist.Address{Addr: address})
}

func (s *simulatedNode) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	peer := s.o.at[to.Addr]
	if s.gone.Load() || peer == nil {
		return time.Now(), errNobody
	}
	s.sent.Add(int64(len(b)) + overhead)
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(s.address)}
	time.AfterFunc(latency, func() {
		if peer.gone.Load() {
			return
		}
		p.Timestamp = time.Now()
		select {
		case peer.packets <- p:
			peer.sent.Add(ack)
		default: // nobody takes it in time, as with our transport
		}
	})
	return time.Now(), nil
}

func (s *simulatedNode) PacketCh() <-chan *memberlist.Packet { return s.packets }
func (s *simulatedNode) StreamCh() <-chan net.Conn           { return s.streams }

func (s *simulatedNode) DialTimeout(address string, d time.Duration) (net.Conn, error) {
	return s.DialAddressTimeout(memberlist.Address{Addr: address}, d)
}

func (s *simulatedNode) DialAddressTimeout(to memberlist.Address, _ time.Duration) (net.Conn, error) {
	peer := s.o.at[to.Addr]
	if s.gone.Load() || peer == nil || peer.gone.Load() {
		return nil, errNobody
	}
	here, there := net.Pipe()
	time.Sleep(2 * latency)
	select {
	case peer.streams <- &counted{there, peer}:
		return &counted{here, s}, nil
	case <-time.After(time.Second):
		return nil, errNobody
	}
}

func (s *simulatedNode) IngestPacket(net.Conn, net.Addr, time.Time, bool) error { return errNobody }
func (s *simulatedNode) IngestStream(net.Conn) error                            { return errNobody }
func (s *simulatedNode) Shutdown() error                                        { return nil }

// counted counts what a machine writes, in packets of a full link.
type counted struct {
	net.Conn
	n *simulatedNode
}

func (c *counted) Write(b []byte) (int, error) {
	c.n.sent.Add(int64(len(b)) + int64(len(b)/1200+1)*overhead)
	return c.Conn.Write(b)
}
