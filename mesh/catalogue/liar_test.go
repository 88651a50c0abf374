package catalogue

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/tools/suites/meshtest"
)

// A taken-over member serves whatever it likes of an honest owner, and of itself.
func TestForgedCataloguesAreRejected(t *testing.T) {
	team := meshtest.NewTeam(t)
	ownerKey, liarKey, readerKey := team.Add(), team.Add(), team.Add()
	liar, reader := meshtest.Node(t, liarKey), meshtest.Node(t, readerKey)
	owner := meshtest.ID(ownerKey)
	meshtest.Introduce(team, liar, reader)
	s, err := Open(Config{Dir: t.TempDir(), Key: readerKey, Node: reader, Log: slog.New(slog.DiscardHandler)}, team.List)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	good := signedSet(t, team, ownerKey, 5, Record{Kind: Image, Key: "k", Changed: 5})
	if err := s.accept(owner, good.since(0, 0)); err != nil {
		t.Fatal(err)
	}
	newer := signedSet(t, team, ownerKey, 6, Record{Kind: Image, Key: "new", Changed: 6}).since(0, 0)
	removing := func(key string, sequence uint64) Delta {
		next := signedSet(t, team, ownerKey, 6, Record{Kind: Image, Key: "k", Changed: 5}, Record{Kind: Image, Key: "new", Changed: 6})
		next.floor, next.removed = 5, []removal{{Image, key, sequence}}
		d := next.since(5, 0)
		d.Removed = next.removed
		return d
	}
	cases := map[string]func(d Delta) any{
		"another record": func(d Delta) any { d.Records[0].Key = "evil"; return d },
		"signed by liar": func(d Delta) any {
			d.Head = d.Head.sign(headDomain, team.List.Team(), liarKey)
			d.Head.Owner = owner
			return d
		},
		"of the liar":     func(d Delta) any { return signedSet(t, team, liarKey, 9).since(0, 0) },
		"other number":    func(d Delta) any { d.Head.Sequence = 99; return d },
		"older":           func(Delta) any { return signedSet(t, team, ownerKey, 4).since(0, 0) },
		"wrong base":      func(d Delta) any { d.Since = 3; return d },
		"too many":        func(d Delta) any { d.Records = make([]Record, MaxRecords+1); return d },
		"not a catalogue": func(Delta) any { return []string{"hello"} },
		// Removals are not signed, and are kept and passed on.
		"a removal of any length":    func(Delta) any { return removing(strings.Repeat("x", 1<<20), 6) },
		"a removal of escapes":       func(Delta) any { return removing("\x1b[2J", 6) },
		"a removal that is to come":  func(Delta) any { return removing("x", 7) },
		"a removal from before that": func(Delta) any { return removing("x", 5) },
	}
	for what, lie := range cases {
		t.Run(what, func(t *testing.T) {
			b, _ := json.Marshal(newer)
			var d Delta
			_ = json.Unmarshal(b, &d)
			answer := lie(d)
			liar.Handle(wire.Catalogue, func(ctx context.Context, c *wire.Conn) {
				for {
					st, err := c.AcceptStream(ctx)
					if err != nil {
						return
					}
					_, _ = io.ReadAll(st)
					_ = wire.WriteMessage(st, answer)
					_ = st.Close()
				}
			})
			err := s.fetch(t.Context(), owner, liar.Self())
			if agentbox.CodeOf(err) != agentbox.Corrupt {
				t.Errorf("%v", err)
			}
			if head, records, _ := s.Records(owner); head.Sequence != 5 || len(records) != 1 || records[0].Key != "k" {
				t.Errorf("%+v, %+v", head, records)
			}
		})
	}
	if c := s.Counters(); c.Refused.Load() == 0 || c.RolledBack.Load() == 0 {
		t.Errorf("%+v", c)
	}
	// An announcement that is longer than any catalogue is not read to its end.
	liar.Handle(wire.Catalogue, func(ctx context.Context, c *wire.Conn) {
		st, err := c.AcceptStream(ctx)
		if err == nil {
			_, _ = st.Write([]byte{0xff, 0xff, 0xff, 0xff})
			_, _ = io.Copy(st, endless{})
		}
	})
	if err := s.fetch(t.Context(), owner, liar.Self()); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Error(err)
	}
	// The owner itself signs two catalogues of one number.
	fork := signedSet(t, team, ownerKey, 5, Record{Kind: Image, Key: "other", Changed: 5}).since(0, 0)
	if err := s.accept(owner, fork); err != nil || s.Counters().Forked.Load() != 1 {
		t.Errorf("%v, %+v", err, s.Counters())
	}
}

// A member is revoked after its catalogue was taken, and before that is written.
func TestRevocationDuringWrite(t *testing.T) {
	team := meshtest.NewTeam(t)
	ownerKey, readerKey := team.Add(), team.Add()
	owner := meshtest.ID(ownerKey)
	reader := meshtest.Node(t, readerKey)
	reader.Admit(team.List)
	good := signedSet(t, team, ownerKey, 5, Record{Kind: Image, Key: "k", Changed: 5})
	var s *Store
	revoked := false
	s, err := Open(Config{Dir: t.TempDir(), Key: readerKey, Node: reader, Log: slog.New(slog.DiscardHandler), Changed: func(identity.PeerID) {
		if revoked {
			return // by the Admit below
		}
		revoked = true
		team.Revoke(ownerKey)
		if err := s.Admit(team.List); err != nil {
			t.Error(err)
		}
	}}, team.List)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.accept(owner, good.since(0, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path(owner)); !os.IsNotExist(err) {
		t.Errorf("the catalogue of a revoked member is on disk: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func signedSet(t *testing.T, team *meshtest.Team, key ed25519.PrivateKey, sequence uint64, records ...Record) *set {
	t.Helper()
	s := &set{records: map[id]Record{}}
	for _, r := range records {
		s.records[r.id()] = r
	}
	d, _, err := digestOf(s.records)
	if err != nil {
		t.Fatal(err)
	}
	s.head = Head{Sequence: sequence, Digest: d}.sign(headDomain, team.List.Team(), key)
	s.floor = sequence
	return s
}

// A peer renews its claim for ever, or gives it up for a moment now and then.
func TestClaimHoldIsLimited(t *testing.T) {
	for what, gives := range map[string]bool{"renewed": false, "given up for moments": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				team := meshtest.NewTeam(t)
				greedy := meshtest.ID(team.Add(identity.Builder))
				s := &Store{
					cfg: Config{OnlinePeers: func() []identity.PeerID { return []identity.PeerID{greedy} }}, list: team.List,
					peers: map[identity.PeerID]*set{}, index: map[id][]recordRef{}, seen: map[claimID]claimTimes{}, own: &set{},
				}
				held := time.Duration(0)
				for n := range uint64(24 * 60) {
					next := &set{records: map[id]Record{}}
					if !gives || n%10 != 0 {
						r := Record{Kind: Claim, Key: "key", TTL: 120, Changed: n + 1}
						next.records[r.id()] = r
					}
					s.set(greedy, next)
					time.Sleep(time.Minute)
					if _, ok := s.Holder("key"); ok {
						held += time.Minute
					}
				}
				// In a day; what is given up within the hour counts anew.
				if held == 0 || !gives && held > MaxClaimHold {
					t.Errorf("held for %s of 24 hours", held)
				}
			})
		})
	}
}

func FuzzDelta(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	owner := identity.PeerOf(key.Public().(ed25519.PublicKey))
	s := &set{records: map[id]Record{}}
	for _, k := range []string{"a", "b"} {
		r := Record{Kind: Image, Key: k, Changed: 2}
		s.records[r.id()] = r
	}
	d, _, _ := digestOf(s.records)
	s.head = Head{Sequence: 2, Digest: d}.sign(headDomain, agentbox.Digest{1}, key)
	b, _ := json.Marshal(s.since(0, 0))
	f.Add(b)
	b, _ = json.Marshal(s.since(1, 0))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var in Delta
		if json.Unmarshal(b, &in) != nil || in.Head.verify(headDomain, agentbox.Digest{1}, key.Public().(ed25519.PublicKey)) != nil {
			return
		}
		next, err := (&set{head: Head{Owner: owner, Sequence: 1}, records: map[id]Record{}}).apply(in)
		if err == nil && (next.head.Digest != d || len(next.records) != 2) {
			t.Fatalf("%+v is taken for what was signed", next)
		}
	})
}
