package meshtest

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Team is a root key and the member list that it signed. Nodes keep the List that they were given:
// Introduce, or Admit, gives them the newest.
type Team struct {
	t    testing.TB
	Root ed25519.PrivateKey
	List identity.List
}

// NewTeam makes a team without members.
func NewTeam(t testing.TB) *Team {
	t.Helper()
	root := Key(t)
	return &Team{t: t, Root: root, List: identity.NewList(root.Public().(ed25519.PublicKey))}
}

// Key makes an identity.
func Key(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ID is the peer of an identity.
func ID(key ed25519.PrivateKey) identity.PeerID {
	return identity.PeerOf(key.Public().(ed25519.PublicKey))
}

// Change signs an entry about a member, or a new one, with the root key, after change, which may be
// nil, has edited it. The newest entry has the greatest serial number.
func (team *Team) Change(key ed25519.PrivateKey, change func(*identity.Entry)) {
	team.t.Helper()
	e := identity.Entry{
		Team: team.List.Team(), Key: key.Public().(ed25519.PublicKey), Issued: time.Now(),
		Name: fmt.Sprintf("node-%d", len(team.List.Members())), Serial: team.List.Serial() + 1,
	}
	if change != nil {
		change(&e)
	}
	signed, err := e.Sign(team.Root)
	if err != nil {
		team.t.Fatal(err)
	}
	if team.List, err = team.List.With(signed); err != nil {
		team.t.Fatal(err)
	}
}

// Add makes a new member, and returns its identity.
func (team *Team) Add(roles ...identity.Role) ed25519.PrivateKey {
	team.t.Helper()
	key := Key(team.t)
	team.Change(key, func(e *identity.Entry) { e.Roles = roles })
	return key
}

// Revoke takes a member off for good.
func (team *Team) Revoke(key ed25519.PrivateKey) {
	team.t.Helper()
	team.Change(key, func(e *identity.Entry) { e.Revoked = true })
}

// Node makes the node of an identity on loopback, which admits nobody yet. It is closed with the
// test.
func Node(t testing.TB, key ed25519.PrivateKey) *wire.Node {
	t.Helper()
	n, err := wire.Listen(wire.Config{Key: key, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Nodes makes a team of n members, all builders, whose nodes admit and know each other.
func Nodes(t testing.TB, n int) (*Team, []*wire.Node) {
	t.Helper()
	team := NewTeam(t)
	var nodes []*wire.Node
	for range n {
		nodes = append(nodes, Node(t, team.Add(identity.Builder)))
	}
	Introduce(team, nodes...)
	return team, nodes
}

// Introduce gives every node the newest list and the addresses of the others.
func Introduce(team *Team, nodes ...*wire.Node) {
	for _, n := range nodes {
		n.Admit(team.List)
		for _, o := range nodes {
			n.AddAddresses(o.Self(), o.Addr())
		}
	}
}

// Eventually waits until something holds, and fails the test after two minutes, which only happens
// when it never will: memberlist alone may take half a minute to declare a death that few others
// confirm (24 s of suspicion among four peers, after probes that slow down).
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
