package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"agentbox/agentbox"
)

func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func peer(k ed25519.PrivateKey) PeerID { return PeerOf(public(k)) }

// signEntry is an entry about one key by another in the team of root.
func signEntry(t testing.TB, root, signer, member ed25519.PrivateKey, serial uint64, change func(*Entry)) Entry {
	t.Helper()
	e := Entry{
		Team: TeamOf(public(root)), Key: public(member), Name: "m", Serial: serial,
		Issued: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}
	if change != nil {
		change(&e)
	}
	signed, err := e.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func admin(e *Entry)   { e.Roles = []Role{Admin} }
func revoked(e *Entry) { e.Revoked = true }

func listOf(t testing.TB, root ed25519.PrivateKey, entries ...Entry) List {
	t.Helper()
	l, err := NewList(public(root)).With(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRootAndAdminsDecideMembership(t *testing.T) {
	root, boss, worker, stranger := key(1), key(2), key(3), key(4)
	now := time.Now()
	l := listOf(t, root,
		signEntry(t, root, root, boss, 1, admin),
		signEntry(t, root, boss, worker, 1, nil),
		signEntry(t, root, worker, stranger, 1, nil),
		signEntry(t, root, boss, stranger, 7, admin), // an admin makes no admins
	)
	for _, c := range []struct {
		who  ed25519.PrivateKey
		want bool
	}{{boss, true}, {worker, true}, {stranger, false}, {root, false}} {
		if got := l.Admits(peer(c.who), now); got != c.want {
			t.Errorf("%s: %v", peer(c.who).Short(), got)
		}
	}
	if (List{}).Admits(peer(boss), now) {
		t.Error("a list of no team admits somebody")
	}
}

func TestRevocationIsFinal(t *testing.T) {
	root, boss, worker := key(1), key(2), key(3)
	l := listOf(t, root,
		signEntry(t, root, root, boss, 1, admin), signEntry(t, root, boss, worker, 1, nil),
		signEntry(t, root, boss, worker, 2, revoked), signEntry(t, root, boss, worker, 3, nil), signEntry(t, root, root, worker, 9, nil),
	)
	if m, _ := l.Member(peer(worker)); !m.Revoked || l.Admits(peer(worker), time.Now()) {
		t.Errorf("%+v", m)
	}
	// An admin cannot revoke an admin.
	other := key(5)
	l = listOf(t, root, signEntry(t, root, root, boss, 1, admin), signEntry(t, root, root, other, 1, admin), signEntry(t, root, other, boss, 5, revoked))
	if !l.Admits(peer(boss), time.Now()) {
		t.Error("an admin was revoked by another")
	}
}

func TestRevokedAdminSignaturesAreVoid(t *testing.T) {
	root, boss, worker, late := key(1), key(2), key(3), key(4)
	l := listOf(t, root,
		signEntry(t, root, root, boss, 1, admin), signEntry(t, root, boss, worker, 1, nil), signEntry(t, root, root, worker, 2, nil),
		signEntry(t, root, root, boss, 2, revoked), signEntry(t, root, boss, late, 1, nil), // its clock may say anything
	)
	now := time.Now()
	if l.Admits(peer(late), now) || l.Admits(peer(boss), now) || !l.Admits(peer(worker), now) {
		t.Errorf("%+v", l.Members())
	}
}

func TestLeaveAndExpiry(t *testing.T) {
	root, worker := key(1), key(3)
	now := time.Now()
	l := listOf(t, root, signEntry(t, root, root, worker, 1, nil), signEntry(t, root, worker, worker, 1, revoked))
	if m, _ := l.Member(peer(worker)); !m.Left || m.Revoked || m.Active(now) {
		t.Errorf("%+v", m)
	}
	if l, _ = l.With(signEntry(t, root, root, worker, 2, nil)); !l.Admits(peer(worker), now) {
		t.Error("who left cannot come back")
	}
	l, _ = l.With(signEntry(t, root, root, worker, 3, func(e *Entry) { e.Expires = now.Add(time.Hour) }))
	if !l.Admits(peer(worker), now) || l.Admits(peer(worker), now.Add(2*time.Hour)) {
		t.Error("expiry does not count")
	}
	// Nobody comes onto the list by leaving it.
	if l = listOf(t, root, signEntry(t, root, key(9), key(9), 1, revoked)); len(l.Entries()) != 0 {
		t.Errorf("%+v", l.Entries())
	}
}

// Peers hear entries in any order, in any portions, and more than once.
func TestListDigestIgnoresOrder(t *testing.T) {
	root, boss, other := key(1), key(2), key(3)
	entries := []Entry{
		signEntry(t, root, root, boss, 1, admin), signEntry(t, root, root, other, 1, admin), signEntry(t, root, root, other, 2, revoked),
		signEntry(t, root, boss, key(4), 1, nil), signEntry(t, root, other, key(4), 1, nil), signEntry(t, root, boss, key(5), 2, revoked),
		signEntry(t, root, other, key(5), 4, nil), signEntry(t, root, key(4), key(4), 1, revoked), signEntry(t, root, root, key(6), 1, nil),
		signEntry(t, root, root, key(6), 1, func(e *Entry) { e.Name = "again" }),
	}
	want := listOf(t, root, entries...)
	for range 50 {
		l := NewList(public(root))
		// An entry counts once those that it rests on are known: the admin, then who was added,
		// then who left. Peers hand each other whole lists, so that one round is enough.
		for range 3 {
			for _, i := range rand.Perm(len(entries)) {
				var err error
				if l, err = l.With(entries[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if l.Digest() != want.Digest() || l.Serial() != want.Serial() {
			t.Fatalf("%+v\n%+v", l.Members(), want.Members())
		}
	}
}

func TestDecodeListIsCanonical(t *testing.T) {
	root, boss := key(1), key(2)
	l := listOf(t, root, signEntry(t, root, root, boss, 1, admin))
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeList(b, l.Team())
	if err != nil || back.Digest() != l.Digest() || !back.Admits(peer(boss), time.Now()) {
		t.Fatalf("%+v, %v", back, err)
	}
	forged := bytes.Replace(b, []byte(`"name":"m"`), []byte(`"name":"x"`), 1)
	spaced := append([]byte(" "), b...)
	for what, c := range map[string][]byte{"forged": forged, "another form": spaced, "cut off": b[:len(b)-3], "nothing": nil} {
		if _, err := DecodeList(c, l.Team()); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := DecodeList(b, TeamOf(public(key(7)))); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("another team: %v", err)
	}
	// A list with an entry that its signer may not sign is not in the one form.
	void := signEntry(t, root, key(8), key(9), 1, nil)
	var in listJSON
	if err := json.Unmarshal(b, &in); err != nil {
		t.Fatal(err)
	}
	in.Entries = append(in.Entries, void)
	b, _ = json.Marshal(in)
	if _, err := DecodeList(b, l.Team()); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("void entry: %v", err)
	}
}

func TestUnauthorizedEntries(t *testing.T) {
	root := key(1)
	good := Entry{Team: TeamOf(public(root)), Key: public(key(2)), Name: "m", Serial: 1}
	for what, change := range map[string]func(*Entry){
		"no team":         func(e *Entry) { e.Team = agentbox.Digest{} },
		"short key":       func(e *Entry) { e.Key = e.Key[:31] },
		"no serial":       func(e *Entry) { e.Serial = 0 },
		"role of escapes": func(e *Entry) { e.Roles = []Role{"king\x1b[2J"} },
		"long role":       func(e *Entry) { e.Roles = []Role{Role(bytes.Repeat([]byte("k"), maxRole+1))} },
		"many roles":      func(e *Entry) { e.Roles = make([]Role, maxRoles+1) },
		"no name":         func(e *Entry) { e.Name = "" },
		"name of lines":   func(e *Entry) { e.Name = "a\nb" },
		"name of escapes": func(e *Entry) { e.Name = "a\x1b[2J" },
		"long name":       func(e *Entry) { e.Name = string(bytes.Repeat([]byte("n"), 65)) },
	} {
		e := good
		change(&e)
		if _, err := e.Sign(root); err == nil {
			t.Errorf("%s is signed", what)
		}
	}
	if _, err := good.Sign(root); err != nil {
		t.Error(err)
	}
}

// A serial number that nothing can exceed would keep what it says for good: a member that cannot be
// changed any more, by anybody.
func TestSerialsCannotBeExhausted(t *testing.T) {
	root, boss, worker := key(1), key(2), key(3)
	l := listOf(t, root, signEntry(t, root, root, boss, 1, admin), signEntry(t, root, boss, worker, 1, nil))
	for _, c := range []struct {
		what           string
		signer, member ed25519.PrivateKey
		change         func(*Entry)
	}{{"by an admin", boss, worker, nil}, {"of an admin by itself", boss, boss, revoked}, {"of a member by itself", worker, worker, revoked}} {
		limit := MaxSerial(l.Team(), public(c.signer), public(c.member))
		for _, serial := range []uint64{limit + 1, math.MaxUint64} {
			e := Entry{Team: l.Team(), Key: public(c.member), Name: "m", Serial: serial, Signer: public(c.signer)}
			if c.change != nil {
				c.change(&e)
			}
			// As somebody signs who does not use our code.
			b, err := e.signed()
			if err != nil {
				t.Fatal(err)
			}
			e.Signature = ed25519.Sign(c.signer, b)
			if _, err := l.With(e); agentbox.CodeOf(err) != agentbox.Corrupt {
				t.Errorf("%s: number %d: %v", c.what, serial, err)
			}
		}
		full, err := l.With(signEntry(t, root, c.signer, c.member, limit, c.change))
		if err != nil {
			t.Fatal(err)
		}
		// The root goes beyond all of them.
		full, err = full.With(signEntry(t, root, root, c.member, limit+1, nil))
		if m, _ := full.Member(peer(c.member)); err != nil || m.Serial != limit+1 || m.Left {
			t.Errorf("%s: %+v, %v", c.what, m, err)
		}
		if full, err = full.With(signEntry(t, root, root, c.member, 1, revoked)); err != nil || full.Admits(peer(c.member), time.Now()) {
			t.Errorf("%s: a revocation with a lower number does not count: %v", c.what, err)
		}
	}
}

func FuzzList(f *testing.F) {
	root := key(1)
	l := listOf(f, root, signEntry(f, root, root, key(2), 1, admin), signEntry(f, root, key(2), key(3), 1, revoked))
	b, _ := l.Encode()
	f.Add(b)
	f.Add(laterList(root, laterEntry(root, root, key(2), "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeList(b, l.Team())
		if err != nil {
			return
		}
		if again, err := got.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q was read and is written as %q (%v)", b, again, err)
		}
	})
}
