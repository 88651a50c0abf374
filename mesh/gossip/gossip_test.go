package gossip_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/gossip"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
)

func start(t *testing.T, team *meshtest.Team, key ed25519.PrivateKey, node *wire.Node) *gossip.Gossip {
	t.Helper()
	g, err := gossip.Start(gossip.Config{Node: node, Key: key, Log: slog.New(slog.DiscardHandler)}, team.List)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// here counts the peers that a node takes for being here.
func here(g *gossip.Gossip) int {
	n := 0
	for _, p := range g.Peers() {
		if p.Online {
			n++
		}
	}
	return n
}

type member struct {
	key  ed25519.PrivateKey
	node *wire.Node
	g    *gossip.Gossip
}

// chain makes a team in which each node knows where the one before it is, and nothing else.
func chain(t *testing.T, n int) (*meshtest.Team, []*member) {
	t.Helper()
	team := meshtest.NewTeam(t)
	var all []*member
	for range n {
		key := team.Add(identity.Builder)
		all = append(all, &member{key: key, node: meshtest.Node(t, key)})
	}
	for i, m := range all {
		m.node.Admit(team.List)
		if i > 0 {
			m.node.AddAddresses(all[i-1].node.Self(), all[i-1].node.Addr())
		}
		m.g = start(t, team, m.key, m.node)
	}
	return team, all
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	_, all := chain(t, 5)
	for _, m := range all {
		meshtest.Eventually(t, "everybody sees everybody", func() bool { return here(m.g) == 4 })
	}
	want := agentbox.Digest{7}
	if err := all[0].g.Announce(func(m *gossip.Meta) { m.Sequence, m.Digest, m.Load = 3, want, 55 }); err != nil {
		t.Fatal(err)
	}
	for _, m := range all[1:] {
		meshtest.Eventually(t, "a new announcement reaches all", func() bool {
			p, ok := m.g.Peer(all[0].node.Self())
			return ok && p.Meta.Sequence == 3 && p.Meta.Digest == want && p.Meta.Load == 55
		})
		if got := m.node.Addresses(all[0].node.Self()); len(got) == 0 || got[0] != all[0].node.Addr() {
			t.Errorf("nobody said where it is: %v", got)
		}
	}
}

func TestRestartedPeerRejoins(t *testing.T) {
	t.Parallel()
	team, all := chain(t, 3)
	for _, m := range all {
		meshtest.Eventually(t, "all are here", func() bool { return here(m.g) == 2 })
	}
	// It goes without a word, and comes back at another address, knowing where one other was.
	gone := all[2]
	if err := gone.node.Close(); err != nil {
		t.Fatal(err)
	}
	_ = gone.g.Close()
	back := meshtest.Node(t, gone.key)
	back.Admit(team.List)
	back.AddAddresses(all[0].node.Self(), all[0].node.Addr())
	g := start(t, team, gone.key, back)
	meshtest.Eventually(t, "it sees the others", func() bool { return here(g) == 2 })
	for _, m := range all[:2] {
		meshtest.Eventually(t, "the others see it where it is", func() bool {
			p, ok := m.g.Peer(back.Self())
			return ok && p.Online && len(p.Meta.Addresses) == 1 && p.Meta.Addresses[0] == back.Addr()
		})
	}
}

func TestRevokedMemberIsRemoved(t *testing.T) {
	t.Parallel()
	team, all := chain(t, 3)
	for _, m := range all {
		meshtest.Eventually(t, "all are here", func() bool { return here(m.g) == 2 })
	}
	team.Revoke(all[1].key)
	for _, i := range []int{0, 2} {
		all[i].node.Admit(team.List)
		all[i].g.Admit(team.List)
		if _, ok := all[i].g.Peer(all[1].node.Self()); ok {
			t.Error("who was revoked is still seen")
		}
	}
	// memberlist still knows it; nothing it says brings it back.
	time.Sleep(2 * time.Second)
	if here(all[0].g) > 1 || here(all[1].g) > 2 {
		t.Errorf("%d peers", here(all[0].g))
	}
}

// A member that was taken over tells others of a thousand nodes that nobody added.
func TestNonMembersDoNotJoin(t *testing.T) {
	t.Parallel()
	_, all := chain(t, 3)
	for _, m := range all {
		meshtest.Eventually(t, "all are here", func() bool { return here(m.g) == 2 })
	}
	for i := range 1000 {
		name := fmt.Sprintf("%064x", i)
		gossip.Lie(all[1].g, name, all[0].node.Self())
	}
	meshtest.Eventually(t, "the non-members are counted", func() bool { return all[0].g.Counters().NonMembers.Load() > 0 })
	// Nor does it make others say what they did not say.
	gossip.LieAbout(all[1].g, all[2].node.Self(), all[0].node.Self())
	meshtest.Eventually(t, "the forged announcement is counted", func() bool { return all[0].g.Counters().Forged.Load() > 0 })
	if n := len(all[0].g.Peers()); n != 2 {
		t.Errorf("%d peers", n)
	}
	if n := gossip.Known(all[0].g); n != 3 {
		t.Errorf("memberlist knows %d nodes", n)
	}
}

func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes memberlist ten seconds and more to declare a death")
	}
	team := meshtest.NewTeam(t)
	nobody := *team
	wall := &meshtest.Partition{}
	var all []*member
	for range 4 {
		key := team.Add()
		all = append(all, &member{key: key, node: meshtest.Node(t, key)})
	}
	// Each knows the others only through the partition, a relay that can be cut. What a node
	// announces leads past it, so nobody hears of anybody before all are hidden.
	for _, m := range all {
		m.g = start(t, &nobody, m.key, m.node)
		gossip.Hide(t, m.g)
	}
	for i, m := range all {
		m.node.Admit(team.List)
		for j, o := range all {
			if i != j {
				m.node.AddAddresses(o.node.Self(), wall.Relay(t, o.node.Addr(), i/2 != j/2))
			}
		}
		m.g.Admit(team.List)
	}
	for _, m := range all {
		meshtest.Eventually(t, "all are here", func() bool { return here(m.g) == 3 })
	}
	for _, m := range all {
		for _, o := range all {
			if slices.Contains(m.node.Addresses(o.node.Self()), o.node.Addr()) {
				t.Fatal("there is a way past the partition")
			}
		}
	}
	wall.Cut(true)
	for _, m := range all {
		meshtest.Eventually(t, "the other half is missed", func() bool { return here(m.g) == 1 })
	}
	wall.Cut(false)
	began := time.Now()
	for _, m := range all {
		meshtest.Eventually(t, "both halves are one", func() bool { return here(m.g) == 3 })
	}
	t.Logf("one again after %s", time.Since(began).Round(time.Millisecond))
}

func TestChangesAreAnnounced(t *testing.T) {
	t.Parallel()
	team := meshtest.NewTeam(t)
	a, b := team.Add(), team.Add()
	nodeA, nodeB := meshtest.Node(t, a), meshtest.Node(t, b)
	meshtest.Introduce(team, nodeA, nodeB)
	var told atomic.Int64
	g, err := gossip.Start(gossip.Config{Node: nodeA, Key: a, Log: slog.New(slog.DiscardHandler), Changed: func(id identity.PeerID) {
		if id == nodeB.Self() {
			told.Add(1)
		}
	}}, team.List)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	other := start(t, team, b, nodeB)
	meshtest.Eventually(t, "it is told that a peer came", func() bool { return told.Load() > 0 })
	came := told.Load()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	meshtest.Eventually(t, "it is told that a peer went", func() bool {
		p, _ := g.Peer(nodeB.Self())
		return told.Load() > came && !p.Online
	})
}

func TestMetaEncodingIsCanonical(t *testing.T) {
	key := meshtest.Key(t)
	public := key.Public().(ed25519.PublicKey)
	node := meshtest.Node(t, key)
	m := gossip.Meta{Sequence: 9, Digest: agentbox.Digest{1}, Load: 12, Free: 1 << 20}
	for range gossip.MaxAddresses {
		m.Addresses = append(m.Addresses, node.Addr())
	}
	b, err := m.Sign(key)
	if err != nil || len(b) > 512 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, err := gossip.DecodeMeta(b, public)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		broken := bytes.Clone(b)
		broken[i] ^= 1
		if _, err := gossip.DecodeMeta(broken, public); err == nil {
			t.Fatalf("byte %d can be changed", i)
		}
		if _, err := gossip.DecodeMeta(b[:i], public); err == nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
	m.Addresses = append(m.Addresses, node.Addr())
	if _, err := m.Sign(key); err == nil {
		t.Error("there is no bound")
	}
}

// A later build may announce more addresses, and bytes after them. They are signed.
func TestLaterMeta(t *testing.T) {
	key := meshtest.Key(t)
	public := key.Public().(ed25519.PublicKey)
	m := gossip.Meta{Sequence: 9, Load: 12}
	for port := range uint16(gossip.MaxAddresses) {
		m.Addresses = append(m.Addresses, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port+1))
	}
	signed, err := m.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	body := signed[:len(signed)-ed25519.SignatureSize]
	seal := func(b []byte) []byte {
		return append(bytes.Clone(b), ed25519.Sign(key, append([]byte("agentbox meta 1\n"), b...))...)
	}
	more := append(bytes.Clone(body), body[len(body)-18:]...)
	more[8+32+8+2+4]++
	for what, b := range map[string][]byte{"bytes": append(bytes.Clone(body), "later"...), "an address": more, "both": append(bytes.Clone(more), 1)} {
		got, err := gossip.DecodeMeta(seal(b), public)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		changed := seal(b)
		changed[len(b)-1] ^= 1
		if _, err := gossip.DecodeMeta(changed, public); err == nil {
			t.Errorf("%s: what is not understood can be changed", what)
		}
		if _, err := gossip.DecodeMeta(seal(more[:len(more)-1]), public); err == nil {
			t.Error("an address may be cut off")
		}
	}
}

// The fuzzer writes what a member signs.
func FuzzMeta(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	seed, _ := gossip.Meta{Sequence: 1, Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:7")}}.Sign(key)
	f.Add(seed[:len(seed)-ed25519.SignatureSize])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(bytes.Clone(body), ed25519.Sign(key, append([]byte("agentbox meta 1\n"), body...))...)
		m, err := gossip.DecodeMeta(b, key.Public().(ed25519.PublicKey))
		if err != nil {
			return
		}
		again, err := m.Sign(key)
		if err != nil || len(m.Addresses) > gossip.MaxAddresses {
			t.Fatalf("%+v, %v", m, err)
		}
		// A later build says more, and an address can be written in two ways.
		if len(again) > len(b) || !bytes.Equal(again[:8+32+8+2+4], b[:8+32+8+2+4]) {
			t.Fatalf("%x was read and is written as %x", b, again)
		}
	})
}
