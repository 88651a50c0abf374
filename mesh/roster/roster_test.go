package roster_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/roster"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
)

type machine struct {
	dir    string
	key    ed25519.PrivateKey
	ahead  time.Duration // of its clock
	node   *wire.Node
	roster *roster.Roster
}

func (m *machine) id() identity.PeerID { return m.node.Self() }

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{dir: t.TempDir(), key: meshtest.Key(t)}
	m.node = meshtest.Node(t, m.key)
	m.open(t)
	return m
}

func (m *machine) open(t *testing.T) {
	t.Helper()
	var err error
	m.roster, err = roster.Open(roster.Config{
		Dir: m.dir, Key: m.key, Log: slog.New(slog.DiscardHandler), Changed: m.node.Admit, Now: func() time.Time { return time.Now().Add(m.ahead) },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.node.Admit(m.roster.List())
	m.roster.Answer(m.node)
}

func (m *machine) invite(t *testing.T, ttl time.Duration, roles ...identity.Role) identity.Invite {
	t.Helper()
	i, err := m.roster.Invite(ttl, roles, []string{m.node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	token, err := i.Token()
	if err != nil {
		t.Fatal(err)
	}
	if i, err = identity.ParseToken(token); err != nil {
		t.Fatal(err)
	}
	return i
}

func (m *machine) join(t *testing.T, i identity.Invite, name string) error {
	t.Helper()
	return m.roster.Join(t.Context(), m.node, i, name)
}

func founder(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	if err := m.roster.Init("founder"); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) admits(id identity.PeerID) bool { return m.roster.List().Admits(id, time.Now()) }

func (m *machine) sync(t *testing.T, with *machine) {
	t.Helper()
	m.node.AddAddresses(with.id(), with.node.Addr())
	if err := m.roster.Sync(t.Context(), m.node, with.id()); err != nil {
		t.Fatal(err)
	}
	if m.roster.List().Digest() != with.roster.List().Digest() {
		t.Fatal("the lists differ")
	}
}

func TestInvitationIsUsedOnce(t *testing.T) {
	a, b, c := founder(t), newMachine(t), newMachine(t)
	i := a.invite(t, time.Hour, identity.Builder)
	if err := b.join(t, i, "second"); err != nil {
		t.Fatal(err)
	}
	m, _ := a.roster.List().Member(b.id())
	if !b.admits(a.id()) || !b.admits(b.id()) || m.Name != "second" || !m.Has(identity.Builder) || m.Has(identity.Admin) {
		t.Fatalf("%+v", m)
	}
	if len(a.node.Addresses(b.id())) == 0 || len(b.node.Addresses(a.id())) == 0 {
		t.Fatal("one of them does not know where the other is")
	}
	err := c.join(t, i, "third")
	if agentbox.CodeOf(err) != agentbox.Conflict || agentbox.AsError(err).Hint == "" || a.admits(c.id()) {
		t.Fatalf("the same invitation again: %v", err)
	}
	// The machine that took it up may ask again, after its answer was lost.
	if err := b.join(t, i, "second"); err != nil {
		t.Error(err)
	}
	// Both start again.
	b.open(t)
	a.open(t)
	if !a.admits(b.id()) || !b.admits(a.id()) {
		t.Error("the list was not kept")
	}
	if err := c.join(t, i, "third"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("the same invitation after a restart: %v", err)
	}
}

func TestRefusedInvitations(t *testing.T) {
	a, b := founder(t), newMachine(t)
	short := a.invite(t, time.Second)
	time.Sleep(1100 * time.Millisecond)
	if err := b.join(t, short, "b"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("expired: %v", err)
	}
	forged := a.invite(t, time.Hour)
	forged.Secret = identity.NewSecret()
	if err := b.join(t, forged, "b"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("another secret: %v", err)
	}
	other := a.invite(t, time.Hour)
	other.Team = agentbox.Digest{1}
	if err := b.join(t, other, "b"); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("another team: %v", err)
	}
	nowhere := a.invite(t, time.Hour)
	nowhere.Addresses = nil
	if err := b.join(t, nowhere, "b"); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("no address: %v", err)
	}
	c := newMachine(t)
	if err := c.join(t, a.invite(t, time.Hour), "a\nb"); err == nil || a.admits(c.id()) {
		t.Error("a name of two lines")
	}
	if team := b.roster.List().Team(); !team.IsZero() {
		t.Errorf("it is in team %s", team)
	}
	if _, err := b.roster.Invite(time.Hour, nil, []string{"a:1"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("who is in no team invites: %v", err)
	}
}

func TestRolesDecideWhoMaySign(t *testing.T) {
	a, b, c := founder(t), newMachine(t), newMachine(t)
	if err := b.join(t, a.invite(t, time.Hour), "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.roster.Invite(time.Hour, nil, []string{"b:1"}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("who is no admin invites: %v", err)
	}
	if err := a.roster.SetRoles(b.id(), []identity.Role{identity.Admin}); err != nil {
		t.Fatal(err)
	}
	b.sync(t, a)
	if _, err := b.roster.Invite(time.Hour, []identity.Role{identity.Admin}, []string{"b:1"}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("an admin makes an admin: %v", err)
	}
	if err := c.join(t, b.invite(t, time.Hour), "c"); err != nil {
		t.Fatal(err)
	}
	if err := b.roster.Revoke(a.id()); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("an admin revokes the founder: %v", err)
	}
	a.sync(t, b)
	// The admin goes, whom it invited stays.
	if err := a.roster.Revoke(b.id()); err != nil {
		t.Fatal(err)
	}
	c.node.AddAddresses(a.id(), a.node.Addr())
	c.sync(t, a)
	if c.admits(b.id()) || !c.admits(c.id()) || !a.admits(c.id()) {
		t.Errorf("%+v", c.roster.List().Members())
	}
	// And does not come back by an invitation.
	i := a.invite(t, time.Hour)
	if err := b.join(t, i, "b"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a revoked machine joins: %v", err)
	}
}

func TestLeavingAdminKeepsItsMembers(t *testing.T) {
	a, b, c := founder(t), newMachine(t), newMachine(t)
	if err := b.join(t, a.invite(t, time.Hour, identity.Admin), "b"); err != nil {
		t.Fatal(err)
	}
	if err := c.join(t, b.invite(t, time.Hour), "c"); err != nil {
		t.Fatal(err)
	}
	a.sync(t, b)
	if err := c.node.Close(); err != nil {
		t.Fatal(err)
	}
	briefly, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := b.roster.AnnounceLeave(briefly, b.node, c.id()); err == nil {
		t.Fatal("nobody is there, and it was told")
	}
	b.node.AddAddresses(a.id(), a.node.Addr())
	if err := b.roster.AnnounceLeave(t.Context(), b.node, a.id()); err != nil {
		t.Fatal(err)
	}
	list := a.roster.List()
	if m, _ := list.Member(b.id()); !m.Left || list.Admits(b.id(), time.Now()) {
		t.Fatalf("%+v", m)
	}
	if err := a.roster.Renew(); err != nil {
		t.Fatal(err)
	}
	m, _ := a.roster.List().Member(c.id())
	if !m.Active(time.Now()) || a.admits(b.id()) {
		t.Errorf("%+v", a.roster.List().Members())
	}
	before := a.roster.List().Digest()
	if err := a.roster.Renew(); err != nil || a.roster.List().Digest() != before {
		t.Errorf("it is renewed again (%v)", err)
	}
	// It may come back, as any machine.
	if err := b.roster.Forget(); err != nil {
		t.Fatal(err)
	}
	if err := b.join(t, a.invite(t, time.Hour), "b"); err != nil || !a.admits(b.id()) {
		t.Error(err)
	}
}

// A machine leaves, and joins again before its admin has heard of that. What it signed when it left
// reaches the admin afterwards, by a third member, and says nothing about its new membership.
func TestLateLeaveKeepsNewMembership(t *testing.T) {
	a, b, c := founder(t), newMachine(t), newMachine(t)
	for _, m := range []*machine{b, c} {
		if err := m.join(t, a.invite(t, time.Hour, identity.Builder), "m"); err != nil {
			t.Fatal(err)
		}
	}
	b.sync(t, a)
	c.sync(t, a)
	b.node.AddAddresses(c.id(), c.node.Addr())
	if err := b.roster.AnnounceLeave(t.Context(), b.node, c.id()); err != nil {
		t.Fatal(err)
	}
	if err := b.roster.Forget(); err != nil {
		t.Fatal(err)
	}
	b.open(t) // what it has to tell survives a restart
	if !a.admits(b.id()) || c.admits(b.id()) {
		t.Fatal("the admin has heard of it, or the other has not")
	}
	if err := b.join(t, a.invite(t, time.Hour), "again"); err != nil {
		t.Fatal(err)
	}
	c.sync(t, a)
	b.sync(t, a)
	for _, m := range []*machine{a, b, c} {
		if got, _ := m.roster.List().Member(b.id()); !got.Active(time.Now()) || got.Name != "again" || got.Has(identity.Builder) {
			t.Errorf("%+v", got)
		}
	}
}

// Who an admin revoked stays out when that admin leaves and comes back as an ordinary member.
func TestRevocationOutlivesAdmin(t *testing.T) {
	a, b, c := founder(t), newMachine(t), newMachine(t)
	if err := b.join(t, a.invite(t, time.Hour, identity.Admin), "b"); err != nil {
		t.Fatal(err)
	}
	if err := c.join(t, a.invite(t, time.Hour), "c"); err != nil {
		t.Fatal(err)
	}
	b.sync(t, a)
	if err := b.roster.Revoke(c.id()); err != nil {
		t.Fatal(err)
	}
	b.sync(t, a)
	if err := b.roster.AnnounceLeave(t.Context(), b.node, a.id()); err != nil {
		t.Fatal(err)
	}
	if err := b.roster.Forget(); err != nil {
		t.Fatal(err)
	}
	if err := b.join(t, a.invite(t, time.Hour), "b"); err != nil {
		t.Fatal(err)
	}
	if m, _ := a.roster.List().Member(c.id()); !m.Revoked || a.admits(c.id()) || b.admits(c.id()) {
		t.Errorf("who was revoked is back: %+v", m)
	}
}

// sendEntry has a machine send its list to another one, with an entry that it signs as our code
// would not.
func (m *machine) sendEntry(t *testing.T, to *machine, e identity.Entry) {
	t.Helper()
	list := m.roster.List()
	e.Team, e.Signer = list.Team(), m.key.Public().(ed25519.PublicKey)
	signed, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	e.Signature = ed25519.Sign(m.key, append([]byte("agentbox member 1\n"), signed...))
	entries := append(slices.DeleteFunc(list.Entries(), func(old identity.Entry) bool {
		return old.Peer() == e.Peer() && bytes.Equal(old.Signer, e.Signer)
	}), e)
	slices.SortFunc(entries, func(a, b identity.Entry) int {
		return cmp.Or(a.Peer().Compare(b.Peer()), identity.PeerOf(a.Signer).Compare(identity.PeerOf(b.Signer)))
	})
	b, err := json.Marshal(struct {
		Root    []byte           `json:"root"`
		Entries []identity.Entry `json:"entries"`
	}{list.Root(), entries})
	if err != nil {
		t.Fatal(err)
	}
	m.node.AddAddresses(to.id(), to.node.Addr())
	c, err := m.node.Dial(t.Context(), to.id(), wire.Roster)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// It is refused by no answer, and taken with an empty one.
	_ = c.Ask(t.Context(), map[string]any{"list": json.RawMessage(b)}, &struct{}{}, 100)
}

// An admin that signs the greatest number about a member does not keep it in the team.
func TestRevocationBeatsHighSerial(t *testing.T) {
	for _, serial := range []uint64{1 << 61, math.MaxUint64} {
		a, b, c, d := founder(t), newMachine(t), newMachine(t), newMachine(t)
		for _, admin := range []*machine{b, d} {
			if err := admin.join(t, a.invite(t, time.Hour, identity.Admin), "admin"); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.join(t, b.invite(t, time.Hour), "c"); err != nil {
			t.Fatal(err)
		}
		for _, admin := range []*machine{a, d} {
			admin.sync(t, b)
			b.sendEntry(t, admin, identity.Entry{Key: c.key.Public().(ed25519.PublicKey), Name: "c", Serial: serial, Issued: time.Unix(0, 0).UTC()})
		}
		if m, _ := a.roster.List().Member(c.id()); (m.Serial == serial) != (serial == 1<<61) {
			t.Fatalf("%+v", m)
		}
		// The root changes it as any other, another admin takes it off.
		if err := a.roster.SetRoles(c.id(), []identity.Role{identity.Builder}); err != nil {
			t.Errorf("number %d: %v", serial, err)
		}
		if m, _ := a.roster.List().Member(c.id()); !m.Has(identity.Builder) {
			t.Errorf("number %d: %+v", serial, m)
		}
		if err := d.roster.SetRoles(c.id(), nil); (err != nil) != (serial == 1<<61) {
			t.Errorf("number %d: %v", serial, err)
		}
		if err := d.roster.Revoke(c.id()); err != nil || d.admits(c.id()) {
			t.Errorf("number %d: %v", serial, err)
		}
		a.sync(t, d)
		if err := a.roster.Revoke(b.id()); err != nil || a.admits(b.id()) || a.admits(c.id()) {
			t.Errorf("number %d: %v", serial, err)
		}
	}
}

// Each of two changes at once has a serial number of its own, so that none is lost.
func TestConcurrentChangesAreKept(t *testing.T) {
	a, b := founder(t), newMachine(t)
	if err := b.join(t, a.invite(t, time.Hour), "b"); err != nil {
		t.Fatal(err)
	}
	before, _ := a.roster.List().Member(b.id())
	const changes = 32
	var all errgroup.Group
	for range changes {
		all.Go(func() error { return a.roster.SetRoles(b.id(), []identity.Role{identity.Builder}) })
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	if after, _ := a.roster.List().Member(b.id()); after.Serial != before.Serial+changes {
		t.Errorf("%d changes, and the serial number went from %d to %d", changes, before.Serial, after.Serial)
	}
}

// A root key without a list is that of a team that was not made, or whose list somebody removed. A
// machine that joins another team all the same could not open its files any more.
func TestRootOfAnotherTeamCannotJoin(t *testing.T) {
	a, b := founder(t), newMachine(t)
	key := filepath.Join(b.dir, "root.key")
	if err := os.WriteFile(key, make([]byte, ed25519.SeedSize), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open(t)
	err := b.join(t, a.invite(t, time.Hour), "b")
	if agentbox.CodeOf(err) != agentbox.Conflict || agentbox.AsError(err).Hint == "" || !b.roster.List().Team().IsZero() {
		t.Fatalf("it joined: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := b.join(t, a.invite(t, time.Hour), "b"); err != nil {
		t.Fatal(err)
	}
	b.open(t)
}

func TestFind(t *testing.T) {
	a, b := founder(t), newMachine(t)
	if err := b.join(t, a.invite(t, time.Hour), "founder"); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{b.id().String(), b.id().Short()} {
		if m, err := a.roster.Find(what); err != nil || m.ID != b.id() {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := a.roster.Find("founder"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("two of one name: %v", err)
	}
	if _, err := a.roster.Find("nobody"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	a := founder(t)
	for _, name := range []string{"members.json", "root.key", "invites.json"} {
		file := filepath.Join(a.dir, name)
		good, _ := os.ReadFile(file)
		if err := os.WriteFile(file, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := roster.Open(roster.Config{Dir: a.dir, Key: a.key, Log: slog.New(slog.DiscardHandler)})
		if agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
		if good == nil {
			os.Remove(file)
		} else if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(filepath.Join(a.dir, "root.key")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
}

// A team whose list could not be kept was never made: its root key would be taken for damage once
// the machine is in another team.
func TestFailedInitLeavesNoRootKey(t *testing.T) {
	a, b := founder(t), newMachine(t)
	list := filepath.Join(b.dir, "members.json")
	if err := os.Mkdir(list, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.roster.Init("b"); err == nil {
		t.Fatal("a team was made without a list on disk")
	}
	if b.roster.IsRoot() {
		t.Error("it has the root key of no team")
	}
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if err := b.join(t, a.invite(t, time.Hour), "b"); err != nil {
		t.Fatal(err)
	}
	if b.roster.IsRoot() {
		t.Error("it has the root key of the team that it joined")
	}
	b.open(t)
}

// Who invited decides about the invitation by its own clock, and serial numbers order what is said.
func TestClockSkew(t *testing.T) {
	admin := newMachine(t)
	admin.ahead = time.Hour
	if err := admin.roster.Init("ahead"); err != nil {
		t.Fatal(err)
	}
	for name, ahead := range map[string]time.Duration{"right": 0, "far ahead": 2 * time.Hour, "behind": -time.Hour} {
		m := newMachine(t)
		m.ahead = ahead
		if err := m.join(t, admin.invite(t, time.Minute), name); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := admin.roster.SetRoles(m.id(), []identity.Role{identity.Builder}); err != nil {
			t.Error(err)
		}
		if err := m.roster.Sync(t.Context(), m.node, admin.id()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		me, ok := m.roster.List().Member(m.id())
		if !ok || !me.Has(identity.Builder) || !me.Active(time.Now().Add(ahead)) {
			t.Errorf("%s: %+v", name, me)
		}
		// Its clock does not bring it back.
		if err := admin.roster.Revoke(m.id()); err != nil {
			t.Error(err)
		}
		if err := m.roster.Sync(t.Context(), m.node, admin.id()); err == nil {
			t.Errorf("%s is still let in", name)
		}
	}
}
