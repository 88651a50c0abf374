package catalogue

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/tools/suites/meshtest"
)

// openStore opens the catalogues of a member.
func openStore(t *testing.T, team *meshtest.Team, key ed25519.PrivateKey, dir string) *Store {
	t.Helper()
	node := meshtest.Node(t, key)
	node.Admit(team.List)
	s, err := Open(Config{Dir: dir, Key: key, Node: node, Log: slog.New(slog.DiscardHandler)}, team.List)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// laterLines are records as a later build may write them: of another kind, whose fields have other
// types; and of a known kind, with a field more.
var laterLines = []string{
	`{"kind":"gpu","key":"a\u003cb","manifest":{"of":["x"]},"size":"large","name":7,"ttl":"long","changed":3}`,
	`{"kind":"image","key":"k","text":"debian","layers":[1,2,{"deep":null}],"changed":2}`,
	`{"kind":"kernel","key":"amd64/6","changed":1}`,
}

// laterDelta is the catalogue of lines, signed.
func laterDelta(team agentbox.Digest, key ed25519.PrivateKey, sequence uint64, lines ...string) []byte {
	h := sha256.New()
	for _, l := range lines {
		h.Write([]byte(l + "\n"))
	}
	head, _ := json.Marshal(Head{Sequence: sequence, Digest: agentbox.Digest(h.Sum(nil))}.sign(headDomain, team, key))
	return fmt.Appendf(nil, `{"head":%s,"since":0,"records":[%s],"more":{"of":"later"}}`, head, strings.Join(lines, ","))
}

func decodeDelta(t *testing.T, b []byte) (d Delta) {
	t.Helper()
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// What a later build wrote is used as far as this one understands it, and passed on as it was
// signed, also after a restart.
func TestUnknownRecordsAreKept(t *testing.T) {
	team := meshtest.NewTeam(t)
	ownerKey, relayKey, readerKey := team.Add(), team.Add(), team.Add()
	owner, dir := meshtest.ID(ownerKey), t.TempDir()
	relay := openStore(t, team, relayKey, dir)
	if err := relay.accept(owner, decodeDelta(t, laterDelta(team.List.Team(), ownerKey, 3, laterLines...))); err != nil {
		t.Fatal(err)
	}
	if err := relay.Close(); err != nil {
		t.Fatal(err)
	}
	relay = openStore(t, team, relayKey, dir)
	if _, records, _ := relay.Records(owner); len(records) != 2 || records[0].Text != "debian" || records[1].Key != "amd64/6" {
		t.Fatalf("%+v", records)
	}
	if found := relay.Lookup("gpu", "a<b"); len(found) != 0 {
		t.Errorf("%+v is used", found)
	}
	passed, err := relay.delta(request{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(passed)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range laterLines {
		if !bytes.Contains(b, []byte(l)) {
			t.Errorf("%s\nis passed on as\n%s", l, b)
		}
	}
	reader := openStore(t, team, readerKey, t.TempDir())
	if err := reader.accept(owner, decodeDelta(t, b)); err != nil {
		t.Errorf("what is passed on is not what was signed: %v", err)
	}
	// The next difference leaves them as they are.
	next := laterDelta(team.List.Team(), ownerKey, 4, laterLines[0], `{"kind":"image","key":"j","changed":4}`, laterLines[1], laterLines[2])
	var d Delta
	if err := json.Unmarshal(next, &d); err != nil {
		t.Fatal(err)
	}
	d.Since, d.Records = 3, slices.DeleteFunc(d.Records, func(r Record) bool { return r.Changed <= 3 })
	if err := reader.accept(owner, d); err != nil {
		t.Error(err)
	}
}

// withKind has this build understand one more kind during a call.
func withKind(k Kind, do func()) {
	kinds[k] = struct{ first, ttl bool }{}
	defer delete(kinds, k)
	do()
}

// acceptedByFirstBuilds does with an answer what 0e3ba6c8 does: it knows these fields and kinds, and
// hashes what it understood.
func acceptedByFirstBuilds(t *testing.T, b []byte) {
	t.Helper()
	var d struct {
		Head    Head     `json:"head"`
		Records []fields `json:"records"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, r := range d.Records {
		if !slices.Contains([]Kind{"image", "setup", "kernel", "template", "task", "box", "claim"}, r.Kind) {
			t.Errorf("the first builds refuse a record of kind %s", r.Kind)
		}
		line, _ := json.Marshal(r)
		h.Write(append(line, '\n'))
	}
	if agentbox.Digest(h.Sum(nil)) != d.Head.Digest {
		t.Error("the first builds take the catalogue for forged")
	}
}

// A build that adds a kind is understood by the first builds, and its records reach another of its
// kind through one like this, even if the catalogue first came from one that leaves them out.
func TestLaterKindReachesItsReaders(t *testing.T) {
	team := meshtest.NewTeam(t)
	ownerKey, relayKey, readerKey := team.Add(), team.Add(), team.Add()
	owner, relay := openStore(t, team, ownerKey, t.TempDir()), openStore(t, team, relayKey, t.TempDir())
	withKind("gpu", func() {
		err := owner.Update(func(e *Edit) {
			e.Put(Record{Kind: Image, Key: "k"})
			e.Put(Record{Kind: "gpu", Key: "0", Text: "a card"})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	sent, err := owner.delta(request{Owner: owner.self})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(sent)
	acceptedByFirstBuilds(t, b)
	if err := relay.accept(owner.self, decodeDelta(t, b)); err != nil {
		t.Fatal(err)
	}
	if found := relay.Lookup("gpu", "0"); len(found) != 0 {
		t.Errorf("%+v is used by a build that does not know the kind", found)
	}
	withKind("gpu", func() {
		reader := openStore(t, team, readerKey, t.TempDir())
		first := sent
		first.Extra = nil
		if err := reader.accept(owner.self, first); err != nil {
			t.Fatal(err)
		}
		shown := relay.heads()
		if len(shown) != 1 || !reader.lacksExtra(shown[0]) {
			t.Fatalf("nothing makes the reader ask: %+v", shown)
		}
		meshtest.Introduce(team, relay.cfg.Node, reader.cfg.Node)
		if err := reader.Exchange(t.Context(), relay.self); err != nil {
			t.Fatal(err)
		}
		if found := reader.Lookup("gpu", "0"); len(found) != 1 || found[0].Text != "a card" || len(reader.Lookup(Image, "k")) != 1 {
			t.Errorf("%+v", found)
		}
		if reader.lacksExtra(shown[0]) {
			t.Error("the reader asks again")
		}
		// It does not go back to an older one, nor forget it with a catalogue that has none.
		if err := owner.Update(func(e *Edit) { e.Remove("gpu", "0"); e.Put(Record{Kind: Image, Key: "l"}) }); err != nil {
			t.Fatal(err)
		}
		next, _ := owner.delta(request{Owner: owner.self})
		next.Extra = nil
		if err := reader.accept(owner.self, next); err != nil || len(reader.Lookup("gpu", "0")) != 1 {
			t.Errorf("%v", err)
		}
		next, _ = owner.delta(request{Owner: owner.self, Since: 2})
		if err := reader.accept(owner.self, next); err != nil || len(reader.Lookup("gpu", "0")) != 0 {
			t.Errorf("what was removed is still there (%v)", err)
		}
	})
}

// A machine that goes back to this build does not go on offering what it no longer keeps up to date.
func TestOwnUnknownRecordsAreForgotten(t *testing.T) {
	team := meshtest.NewTeam(t)
	key, dir := team.Add(), t.TempDir()
	withKind("gpu", func() {
		s := openStore(t, team, key, dir)
		err := s.Update(func(e *Edit) { e.Put(Record{Kind: "gpu", Key: "0"}); e.Put(Record{Kind: Image, Key: "k"}) })
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	})
	s := openStore(t, team, key, dir)
	d, err := s.delta(request{Owner: s.self})
	if err != nil || d.Extra == nil || len(d.Extra.Records) != 0 || len(d.Records) != 1 || d.Extra.Head.Sequence != d.Head.Sequence {
		t.Errorf("%+v, %v", d, err)
	}
	if err := s.Update(func(e *Edit) { e.Put(Record{Kind: "gpu", Key: "1"}) }); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("a record of an unknown kind was written: %v", err)
	}
}

// What a member says beyond our understanding is bounded, signed by its owner, and its own.
func TestUnknownPartsAreBounded(t *testing.T) {
	team := meshtest.NewTeam(t)
	ownerKey, otherKey, readerKey := team.Add(), team.Add(), team.Add()
	owner, id := meshtest.ID(ownerKey), team.List.Team()
	s := openStore(t, team, readerKey, t.TempDir())
	extra := func(domain string, key ed25519.PrivateKey, sequence uint64, lines ...string) *Extra {
		h := sha256.New()
		var e Extra
		for _, l := range lines {
			var r Record
			if err := json.Unmarshal([]byte(l), &r); err != nil {
				t.Fatal(err)
			}
			e.Records = append(e.Records, r)
			h.Write([]byte(l + "\n"))
		}
		e.Head = Head{Sequence: sequence, Digest: agentbox.Digest(h.Sum(nil))}.sign(domain, id, key)
		return &e
	}
	gpu := func(n int, fill string) string {
		return fmt.Sprintf(`{"kind":"gpu","key":"%04d","fill":"%s","changed":1}`, n, fill)
	}
	many := func(n int, fill string) (lines []string) {
		for i := range n {
			lines = append(lines, gpu(i, fill))
		}
		return lines
	}
	changed := extra(extraDomain, ownerKey, 1, gpu(1, ""))
	changed.Records[0].line = []byte(gpu(1, "x"))
	for what, e := range map[string]*Extra{
		"too many":                   extra(extraDomain, ownerKey, 1, many(maxExtraRecords+1, "")...),
		"too much":                   extra(extraDomain, ownerKey, 1, many(maxExtraBytes/8000+1, strings.Repeat("x", 8000))...),
		"signed by another":          extra(extraDomain, otherKey, 1, gpu(1, "")),
		"signed as a catalogue":      extra(headDomain, ownerKey, 1, gpu(1, "")),
		"newer than the catalogue":   extra(extraDomain, ownerKey, 3, gpu(1, "")),
		"a kind of the first builds": extra(extraDomain, ownerKey, 1, `{"kind":"image","key":"k","changed":1}`),
		"a kind that moves a cursor": extra(extraDomain, ownerKey, 1, `{"kind":"\u001b[2J","key":"k","changed":1}`),
		"no key":                     extra(extraDomain, ownerKey, 1, `{"kind":"gpu","changed":1}`),
		"another record than signed": changed,
		"a long kind":                extra(extraDomain, ownerKey, 1, `{"kind":"`+strings.Repeat("k", MaxKind+1)+`","key":"k","changed":1}`),
		"fewer records than signed":  {Head: extra(extraDomain, ownerKey, 1, gpu(1, "")).Head, Records: records{}},
	} {
		d := decodeDelta(t, laterDelta(id, ownerKey, 2))
		d.Extra = e
		if err := s.accept(owner, d); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, b := range map[string][]byte{
		"a long record":              laterDelta(id, ownerKey, 2, gpu(1, strings.Repeat("x", MaxLine))),
		"a kind that moves a cursor": laterDelta(id, ownerKey, 2, `{"kind":"\u001b[2J","key":"k","changed":1}`),
		"a key of any length":        laterDelta(id, ownerKey, 2, `{"kind":"gpu","key":"`+strings.Repeat("k", MaxKey+1)+`","changed":1}`),
		"more than a catalogue has":  laterDelta(id, ownerKey, 2, many(MaxBytes/16000+1, strings.Repeat("x", 16000))...),
	} {
		var d Delta
		err := json.Unmarshal(b, &d)
		if err == nil {
			err = s.accept(owner, d)
		}
		if agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, ok := s.Records(owner); ok {
		t.Error("something of it was taken")
	}
}

// A difference in the white space is none in what was signed; anything else is.
func FuzzRecord(f *testing.F) {
	for _, l := range laterLines {
		f.Add([]byte(l))
	}
	f.Add([]byte(`{ "kind" : "image", "Key": "a", "key": "<b>", "changed": 1 }`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Record
		if json.Unmarshal(b, &r) != nil || r.Check() != nil {
			return
		}
		line, err := json.Marshal(r)
		if err != nil || json.Unmarshal(line, &again) != nil {
			t.Fatalf("%q is written as %q (%v)", b, line, err)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(line, second) || r.id() != again.id() || r.Changed != again.Changed {
			t.Fatalf("%q is written as %q, then as %q (%v)", b, line, second, err)
		}
	})
}
