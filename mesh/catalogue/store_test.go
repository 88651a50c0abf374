package catalogue_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
)

type member struct {
	key   ed25519.PrivateKey
	node  *wire.Node
	dir   string
	store *catalogue.Store
}

func (m *member) id() identity.PeerID { return m.node.Self() }

// members makes a team whose members know each other; nobody gossips, so tests say who saw what.
func members(t *testing.T, n int) (*meshtest.Team, []*member) {
	t.Helper()
	team := meshtest.NewTeam(t)
	var all []*member
	var nodes []*wire.Node
	for range n {
		key := team.Add(identity.Builder)
		m := &member{key: key, node: meshtest.Node(t, key), dir: t.TempDir()}
		all, nodes = append(all, m), append(nodes, m.node)
	}
	meshtest.Introduce(team, nodes...)
	for _, m := range all {
		m.open(t, team, all)
	}
	return team, all
}

func (m *member) open(t *testing.T, team *meshtest.Team, all []*member) {
	t.Helper()
	var err error
	m.store, err = catalogue.Open(catalogue.Config{
		Dir: m.dir, Key: m.key, Node: m.node, Log: slog.New(slog.DiscardHandler),
		OnlinePeers: func() []identity.PeerID {
			var out []identity.PeerID
			for _, o := range all {
				out = append(out, o.id())
			}
			return out
		},
	}, team.List)
	if err != nil {
		t.Fatal(err)
	}
	s := m.store
	t.Cleanup(func() { _ = s.Close() })
}

func image(n int) catalogue.Record {
	return catalogue.Record{Kind: catalogue.Image, Key: fmt.Sprintf("%064x", n), Alias: "recipe", Manifest: agentbox.Digest{byte(n)}, Size: 1 << 20}
}

func (m *member) put(t *testing.T, records ...catalogue.Record) {
	t.Helper()
	err := m.store.Update(func(e *catalogue.Edit) {
		for _, r := range records {
			e.Put(r)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitSequence makes a member hear what another one's gossip says.
func (m *member) awaitSequence(t *testing.T, of *member) {
	t.Helper()
	head := of.store.Head()
	m.store.ObserveSequence(of.id(), head.Sequence, of.id())
	meshtest.Eventually(t, "it has the newest catalogue", func() bool {
		got, _, ok := m.store.Records(of.id())
		return ok && got.Sequence == head.Sequence && got.Digest == head.Digest
	})
}

func TestChangesReachPeers(t *testing.T) {
	t.Parallel()
	_, all := members(t, 2)
	a, b := all[0], all[1]
	a.put(t, image(1), image(2))
	b.awaitSequence(t, a)
	found := b.store.Lookup(catalogue.Image, image(1).Key)
	if len(found) != 1 || found[0].Owner != a.id() || found[0].Manifest != image(1).Manifest {
		t.Fatalf("%+v", found)
	}
	if got := b.store.Lookup(catalogue.Image, "recipe"); len(got) != 2 {
		t.Fatalf("by recipe: %+v", got)
	}
	if err := a.store.Update(func(e *catalogue.Edit) { e.Remove(catalogue.Image, image(1).Key) }); err != nil {
		t.Fatal(err)
	}
	a.put(t, image(3))
	b.awaitSequence(t, a)
	if len(b.store.Lookup(catalogue.Image, image(1).Key)) != 0 || len(b.store.Lookup(catalogue.Image, image(3).Key)) != 1 {
		t.Error("the difference was not taken")
	}
	before := a.store.Head()
	a.put(t, image(3))
	if a.store.Head().Sequence != before.Sequence {
		t.Error("what changes nothing is announced")
	}
}

// Who could not be asked when there was something new is asked again, without being told again.
func TestFetchIsRetried(t *testing.T) {
	t.Parallel()
	team, all := members(t, 2)
	a, b := all[0], all[1]
	a.put(t, image(1))
	if err := a.store.Close(); err != nil { // as when its daemon is just ending
		t.Fatal(err)
	}
	b.store.ObserveSequence(a.id(), a.store.Head().Sequence, a.id())
	meshtest.Eventually(t, "it was asked in vain", func() bool { return b.store.Counters().Failed.Load() > 0 })
	a.open(t, team, all)
	meshtest.Eventually(t, "it is had", func() bool { return len(b.store.Lookup(catalogue.Image, "recipe")) == 1 })
}

// What a sleeping laptop has is read from who heard of it before.
func TestCatalogueOfOfflinePeer(t *testing.T) {
	t.Parallel()
	_, all := members(t, 3)
	a, b, c := all[0], all[1], all[2]
	a.put(t, image(1))
	b.awaitSequence(t, a)
	if err := a.node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Exchange(t.Context(), b.id()); err != nil {
		t.Fatal(err)
	}
	meshtest.Eventually(t, "it is had from another", func() bool { return len(c.store.Lookup(catalogue.Image, "recipe")) == 1 })
}

func TestRestartKeepsSequence(t *testing.T) {
	t.Parallel()
	team, all := members(t, 2)
	a, b := all[0], all[1]
	for n := range 5 {
		a.put(t, image(n))
	}
	b.awaitSequence(t, a)
	head := a.store.Head()
	_ = a.store.Close()
	a.open(t, team, all)
	if got := a.store.Head(); got.Sequence != head.Sequence || got.Digest != head.Digest {
		t.Fatalf("%+v, was %+v", got, head)
	}
	_ = b.store.Close()
	b.open(t, team, all)
	if len(b.store.Lookup(catalogue.Image, "recipe")) != 5 {
		t.Error("what was known of others is gone")
	}
	// A disk that was restored from a backup, or lost: the others know more of us than we do.
	_ = a.store.Close()
	if err := os.WriteFile(filepath.Join(a.dir, a.id().String()+".json"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.open(t, team, all)
	a.put(t, image(9))
	if err := a.store.Exchange(t.Context(), b.id()); err != nil {
		t.Fatal(err)
	}
	if got := a.store.Head(); got.Sequence <= head.Sequence {
		t.Fatalf("sequence %d, the others know %d", got.Sequence, head.Sequence)
	}
	b.awaitSequence(t, a)
	if got := b.store.Lookup(catalogue.Image, "recipe"); len(got) != 1 || got[0].Key != image(9).Key {
		t.Errorf("%+v", got)
	}
}

func TestRevokedMemberIsDropped(t *testing.T) {
	t.Parallel()
	team, all := members(t, 3)
	a, b, c := all[0], all[1], all[2]
	a.put(t, image(1))
	b.awaitSequence(t, a)
	team.Revoke(a.key)
	if err := b.store.Admit(team.List); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := b.store.Records(a.id()); ok || len(b.store.Lookup(catalogue.Image, "recipe")) != 0 {
		t.Error("it is still there")
	}
	if _, err := os.Stat(filepath.Join(b.dir, a.id().String()+".json")); err == nil {
		t.Error("it is still on disk")
	}
	// Somebody who has not heard yet does not bring it back.
	c.awaitSequence(t, a)
	if err := b.store.Exchange(t.Context(), c.id()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if len(b.store.Lookup(catalogue.Image, "recipe")) != 0 {
		t.Error("it is back")
	}
}

// The machine was off, or its daemon ended, between the new list and the removal of the catalogue.
func TestFormerMembersAreDroppedAtStart(t *testing.T) {
	t.Parallel()
	team, all := members(t, 4)
	reader, revoked, left, stays := all[0], all[1], all[2], all[3]
	for _, m := range all[1:] {
		m.put(t, image(1))
		reader.awaitSequence(t, m)
	}
	if err := reader.store.Close(); err != nil {
		t.Fatal(err)
	}
	team.Revoke(revoked.key)
	entry, err := identity.Entry{Team: team.List.Team(), Key: left.key.Public().(ed25519.PublicKey), Name: "left", Serial: team.List.Serial() + 1, Revoked: true}.Sign(left.key)
	if err != nil {
		t.Fatal(err)
	}
	if team.List, err = team.List.With(entry); err != nil {
		t.Fatal(err)
	}
	reader.node.Admit(team.List)
	reader.open(t, team, all)
	for _, m := range []*member{revoked, left} {
		if _, _, ok := reader.store.Records(m.id()); ok {
			t.Errorf("the catalogue of %s is known", m.id())
		}
		if _, err := os.Stat(filepath.Join(reader.dir, m.id().String()+".json")); err == nil {
			t.Errorf("the catalogue of %s is on disk", m.id())
		}
	}
	if _, _, ok := reader.store.Records(stays.id()); !ok {
		t.Error("a member's is gone")
	}
}

func TestCatalogueIsBounded(t *testing.T) {
	t.Parallel()
	_, all := members(t, 1)
	a := all[0]
	err := a.store.Update(func(e *catalogue.Edit) {
		for n := range catalogue.MaxRecords + 1 {
			e.Put(image(n))
		}
	})
	if agentbox.CodeOf(err) != agentbox.NoSpace || a.store.Head().Sequence != 0 {
		t.Fatalf("%v, %+v", err, a.store.Head())
	}
	for what, r := range map[string]catalogue.Record{
		"no key":       {Kind: catalogue.Image},
		"no kind":      {Key: "k"},
		"long key":     {Kind: catalogue.Image, Key: string(bytes.Repeat([]byte("k"), catalogue.MaxKey+1))},
		"escapes":      {Kind: catalogue.Image, Key: "k\x1b[2J"},
		"long name":    {Kind: catalogue.Image, Key: "k", Name: make([]byte, catalogue.MaxName+1)},
		"no size":      {Kind: catalogue.Image, Key: "k", Size: -1},
		"endless":      {Kind: catalogue.Claim, Key: "k", TTL: 1 << 30},
		"claim no TTL": {Kind: catalogue.Claim, Key: "k"},
	} {
		if err := a.store.Update(func(e *catalogue.Edit) { e.Put(r) }); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOneClaimPerKey(t *testing.T) {
	t.Parallel()
	_, all := members(t, 2)
	a, b := all[0], all[1]
	if _, mine, err := a.store.TakeClaim("key", time.Minute); err != nil || !mine {
		t.Fatal(err)
	}
	b.awaitSequence(t, a)
	if holder, mine, err := b.store.TakeClaim("key", time.Minute); err != nil || mine || holder != a.id() {
		t.Fatalf("%v, %v, %v", holder, mine, err)
	}
	if err := a.store.DropClaim("key"); err != nil {
		t.Fatal(err)
	}
	b.awaitSequence(t, a)
	if _, mine, err := b.store.TakeClaim("key", time.Second); err != nil || !mine {
		t.Fatal(err)
	}
	a.awaitSequence(t, b)
	if holder, ok := a.store.Holder("key"); !ok || holder != b.id() {
		t.Fatalf("%v, %v", holder, ok)
	}
	// Its owner is never heard of again, and the claim ends by the reader's own clock.
	meshtest.Eventually(t, "the claim is over", func() bool { _, ok := a.store.Holder("key"); return !ok })
}

func TestConcurrentClaimsGoToLowerPeer(t *testing.T) {
	t.Parallel()
	_, all := members(t, 3)
	var claims sync.WaitGroup
	for _, m := range all {
		claims.Go(func() {
			if _, mine, err := m.store.TakeClaim("key", time.Minute); err != nil || !mine {
				t.Errorf("%v, %v", mine, err)
			}
		})
	}
	claims.Wait()
	lowest := all[0]
	for _, m := range all {
		if m.id().Compare(lowest.id()) < 0 {
			lowest = m
		}
		for _, o := range all {
			if o != m {
				m.awaitSequence(t, o)
			}
		}
	}
	for _, m := range all {
		if holder, ok := m.store.Holder("key"); !ok || holder != lowest.id() {
			t.Errorf("%s: %s", m.id().Short(), holder.Short())
		}
	}
}
