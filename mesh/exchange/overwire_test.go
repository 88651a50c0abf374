package exchange

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/mesh/exchange/schedule"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
)

// overQUIC makes a machine whose streams are real ones.
func (tn *testNetwork) overQUIC(node *wire.Node) *machine {
	tn.t.Helper()
	network := OverWire(node)
	m := tn.machine(0, func(c *Config) { c.Self, c.Network = node.Self(), network })
	delete(tn.machines, m.id)
	m.id = node.Self()
	tn.machines[m.id] = m
	network.Answer(m.Node)
	tn.t.Cleanup(func() { network.Close() })
	return m
}

func TestTransferOverQUIC(t *testing.T) {
	t.Parallel()
	_, nodes := meshtest.Nodes(t, 3)
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(60, 300_000)
	a, b, to := o.overQUIC(nodes[0]), o.overQUIC(nodes[1]), o.overQUIC(nodes[2])
	a.give(d, mf, chunks, upTo(60)[:40]...)
	b.give(d, mf, chunks, upTo(60)[20:]...)
	if _, err := to.fetch(d, mf); err != nil {
		t.Fatal(err)
	}
	to.whole(mf)
	if books := to.Traffic(); books[a.id].Received == 0 || books[b.id].Received == 0 {
		t.Errorf("%+v", books)
	}
}

// Who is revoked gets nothing more, in the middle of a transfer.
func TestRevokedReceiverIsDisconnected(t *testing.T) {
	t.Parallel()
	team := meshtest.NewTeam(t)
	k1, k2 := team.Add(identity.Builder), team.Add()
	n1, n2 := meshtest.Node(t, k1), meshtest.Node(t, k2)
	meshtest.Introduce(team, n1, n2)
	o := newTestNetwork(t)
	d, mf, chunks := someBlob(100, 100_000)
	seed, to := o.overQUIC(n1), o.overQUIC(n2)
	seed.Node.Close()
	network := OverWire(n1)
	limited, err := New(Config{Self: n1.Self(), Network: network, Holders: o, Store: seed, Upload: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer limited.Close()
	network.Answer(limited)
	seed.give(d, mf, chunks, upTo(100)...)
	tr := to.begin(d, mf)
	done := make(chan error, 1)
	go func() { done <- tr.Fetch(t.Context(), schedule.Rest, upTo(100)) }()
	meshtest.Eventually(t, "something comes", func() bool { return to.Traffic()[seed.id].Received > 0 })
	team.Revoke(k2)
	n1.Admit(team.List)
	if err := <-done; agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
	meshtest.Eventually(t, "its sessions end", func() bool { return limited.Sessions() == 0 })
}

// A network that loses, repeats, swaps and damages packets makes a transfer slower and nothing
// else.
func TestUnreliableNetwork(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]meshtest.PacketFaults{
		"lossy":     {Lost: 0.05},
		"twice":     {Duplicated: 0.05},
		"reordered": {Reordered: 0.05},
		"damaged":   {Corrupted: 0.05},
		"all":       {Lost: 0.05, Duplicated: 0.05, Reordered: 0.05, Corrupted: 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			team := meshtest.NewTeam(t)
			n1, n2 := meshtest.Node(t, team.Add(identity.Builder)), meshtest.Node(t, team.Add())
			wall := &meshtest.Partition{Faults: w}
			for _, n := range []*wire.Node{n1, n2} {
				n.Admit(team.List)
			}
			n1.AddAddresses(n2.Self(), wall.Relay(t, n2.Addr(), true))
			n2.AddAddresses(n1.Self(), wall.Relay(t, n1.Addr(), true))
			o := newTestNetwork(t)
			d, mf, chunks := someBlob(60, 100_000)
			seed, to := o.overQUIC(n1), o.overQUIC(n2)
			seed.give(d, mf, chunks, upTo(60)...)
			if _, err := to.fetch(d, mf); err != nil {
				t.Fatal(err)
			}
			to.whole(mf)
			if b := to.Traffic()[seed.id]; b.Wrong != 0 {
				t.Errorf("what QUIC should have kept away came up to the pieces: %+v", b)
			}
		})
	}
}
