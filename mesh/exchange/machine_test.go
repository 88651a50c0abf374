package exchange

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange/schedule"
)

// testNetwork is some machines that reach each other over loopback connections.
type testNetwork struct {
	t        *testing.T
	mu       sync.Mutex
	machines map[PeerID]*machine
	holders  map[agentbox.Digest][]PeerID
	conns    map[PeerID][]net.Conn
	silent   map[PeerID]*silentPeer
	work     sync.WaitGroup
}

// machine is one of them: its Node, and a Store in memory.
type machine struct {
	*Node
	o    *testNetwork
	id   PeerID
	wrap func(net.Conn) net.Conn // of streams that others open to it; may be nil

	mu       sync.Mutex
	chunks   map[agentbox.Digest][]byte
	manifest map[agentbox.Digest]blob.Manifest
	share    map[agentbox.Digest]bool
	full     bool
	spoil    func(i agentbox.Digest, b []byte) []byte
}

func newTestNetwork(t *testing.T) *testNetwork {
	t.Helper()
	o := &testNetwork{t: t, machines: map[PeerID]*machine{}, holders: map[agentbox.Digest][]PeerID{}, conns: map[PeerID][]net.Conn{}, silent: map[PeerID]*silentPeer{}}
	t.Cleanup(o.close)
	return o
}

func (tn *testNetwork) close() {
	for _, m := range tn.machines {
		m.Close()
	}
	tn.work.Wait()
}

func (tn *testNetwork) machine(number byte, change ...func(*Config)) *machine {
	tn.t.Helper()
	m := &machine{o: tn, id: PeerID{number}, chunks: map[agentbox.Digest][]byte{}, manifest: map[agentbox.Digest]blob.Manifest{}, share: map[agentbox.Digest]bool{}}
	cfg := Config{Self: m.id, Network: m, Holders: tn, Store: m}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if m.Node, err = New(cfg); err != nil {
		tn.t.Fatal(err)
	}
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.machines[m.id] = m
	return m
}

func (tn *testNetwork) Holders(d agentbox.Digest) []PeerID {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	return append([]PeerID(nil), tn.holders[d]...)
}

// Open connects m to another machine, whose Node serves it.
func (m *machine) Open(ctx context.Context, peer PeerID) (Stream, error) {
	m.o.mu.Lock()
	defer m.o.mu.Unlock()
	if s := m.o.silent[peer]; s != nil {
		m.o.mu.Unlock()
		err := s.wait(ctx)
		m.o.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	to := m.o.machines[peer]
	if to == nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "%s does not answer", peer.Short())
	}
	here, there := loopback(m.o.t)
	m.o.conns[peer] = append(m.o.conns[peer], there)
	m.o.conns[m.id] = append(m.o.conns[m.id], here)
	if to.wrap != nil {
		there = to.wrap(there)
	}
	m.o.work.Go(func() { _ = to.Serve(context.Background(), m.id, there) })
	return here, nil
}

// silentPeer is a machine that does not answer, nor says that it is not there.
type silentPeer struct {
	dialled chan struct{} // gets one for each dial that fits
	ends    chan struct{} // closed when it is back; nil: never
}

func (s *silentPeer) wait(ctx context.Context) error {
	select {
	case s.dialled <- struct{}{}:
	default:
	}
	select {
	case <-s.ends:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// silence stops a machine from answering, from now on.
func (tn *testNetwork) silence(id PeerID) *silentPeer {
	tn.mu.Lock()
	defer tn.mu.Unlock()
	tn.silent[id] = &silentPeer{dialled: make(chan struct{}, 1), ends: make(chan struct{})}
	return tn.silent[id]
}

func loopback(t *testing.T) (here, there net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return net.Pipe()
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() { c, _ := l.Accept(); accepted <- c }()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Error(err)
	}
	return here, <-accepted
}

// kill cuts a machine off, for good.
func (tn *testNetwork) kill(m *machine) {
	tn.mu.Lock()
	delete(tn.machines, m.id)
	conns := tn.conns[m.id]
	tn.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	m.Close()
}

func (m *machine) Shared(_ context.Context, _ PeerID, d agentbox.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.share[d]
}

func (m *machine) Manifest(_ context.Context, d agentbox.Digest) (blob.Manifest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mf, ok := m.manifest[d]; ok {
		return mf, nil
	}
	return blob.Manifest{}, agentbox.Errorf(agentbox.NotFound, "no manifest %s", d.Short())
}

func (m *machine) Bitmap(mf blob.Manifest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bits := make([]byte, (len(mf.Chunks)+7)/8)
	for i, c := range mf.Chunks {
		if _, ok := m.chunks[c.Digest]; ok || c.Zero() {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits, nil
}

func (m *machine) ReadStored(_ context.Context, d agentbox.Digest, buf []byte) ([]byte, blob.Encoding, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.chunks[d]
	if !ok {
		return nil, 0, 0, agentbox.Errorf(agentbox.NotFound, "no chunk %s", d.Short())
	}
	if m.spoil != nil {
		b = m.spoil(d, b)
	}
	return append(buf[:0], b...), blob.Plain, len(b), nil
}

// someBlob makes a blob of n pieces.
func someBlob(n, size int) (agentbox.Digest, blob.Manifest, [][]byte) {
	random := rand.NewChaCha8([32]byte{byte(n), byte(size)})
	m := blob.Manifest{Info: blob.Info{Kind: blob.Artifact}}
	var chunks [][]byte
	for range n {
		c := make([]byte, size)
		random.Read(c)
		chunks = append(chunks, c)
		m.Chunks = append(m.Chunks, blob.Chunk{Digest: blob.Sum(c), Size: size})
		m.Size += int64(size)
	}
	return blob.Sum(m.Encode()), m, chunks
}

// give puts pieces of a blob on a machine's store and shares it.
func (m *machine) give(d agentbox.Digest, mf blob.Manifest, chunks [][]byte, which ...int) {
	m.mu.Lock()
	m.manifest[d], m.share[d] = mf, true
	for _, i := range which {
		m.chunks[mf.Chunks[i].Digest] = chunks[i]
	}
	m.mu.Unlock()
	m.o.mu.Lock()
	defer m.o.mu.Unlock()
	m.o.holders[d] = append(m.o.holders[d], m.id)
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// begin starts to get a blob onto a machine's store.
func (m *machine) begin(d agentbox.Digest, mf blob.Manifest) *Transfer {
	m.o.t.Helper()
	t, err := m.Begin(d, mf, func(_ context.Context, _ PeerID, i int, b []byte) error {
		if err := blob.Check(mf.Chunks[i].Digest, b); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.full {
			return agentbox.Errorf(agentbox.NoSpace, "the disk is full")
		}
		if m.chunks[mf.Chunks[i].Digest] != nil {
			m.o.t.Errorf("piece %d arrived twice", i)
		}
		m.chunks[mf.Chunks[i].Digest] = append([]byte(nil), b...)
		m.manifest[d] = mf
		return nil
	})
	if err != nil {
		m.o.t.Fatal(err)
	}
	m.o.t.Cleanup(func() { t.Close() })
	return t
}

// fetch gets all of a blob.
func (m *machine) fetch(d agentbox.Digest, mf blob.Manifest) (*Transfer, error) {
	t := m.begin(d, mf)
	ctx, cancel := context.WithTimeout(m.o.t.Context(), 5*time.Minute)
	defer cancel()
	return t, t.Fetch(ctx, schedule.Rest, upTo(len(mf.Chunks)))
}

// whole fails the test unless a machine has every byte of a blob, and no other.
func (m *machine) whole(mf blob.Manifest) {
	m.o.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range mf.Chunks {
		if blob.Sum(m.chunks[c.Digest]) != c.Digest {
			m.o.t.Errorf("machine %d: piece %d is missing or wrong", m.id[0], i)
			return
		}
	}
}

// encodedStore is a Store whose one chunk lies there in an encoding.
type encodedStore struct {
	*machine
	b   []byte
	enc blob.Encoding
}

func (e encodedStore) ReadStored(_ context.Context, d agentbox.Digest, buf []byte) ([]byte, blob.Encoding, int, error) {
	return append(buf[:0], e.b...), e.enc, len(e.chunks[d]), nil
}

// Stats tells what the scheduler did.
func (t *Transfer) Stats() schedule.Stats {
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	return t.state.Stats()
}
