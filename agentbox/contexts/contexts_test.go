package contexts

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

var alice, bob = identity.PeerID{1}, identity.PeerID{2}

// owner has one task of one project.
func owner(t *testing.T) (*Owner, *int) {
	prepared := 0
	all := Answer{Identity: agentbox.Digest{1}, Snapshot: agentbox.Digest{2}, Work: agentbox.Digest{3}}
	return &Owner{
		Allowed: &Allowed{File: filepath.Join(t.TempDir(), "contexts.json")},
		Find: func(_ context.Context, name string) (Subject, error) {
			if name != "t-1" {
				return Subject{}, agentbox.Errorf(agentbox.NotFound, "there is no %s", name)
			}
			return Subject{ID: "t-1", Project: "app"}, nil
		},
		Prepare:   func(context.Context, Subject, Question) (Answer, error) { prepared++; return all, nil },
		Withdrawn: func() {}, Log: slog.New(slog.DiscardHandler),
	}, &prepared
}

// Who asks again and again takes no more memory: what it was granted first goes.
func TestGrantsAreBounded(t *testing.T) {
	o, _ := owner(t)
	app := Subject{ID: "t-1", Project: "app"}
	if err := o.Share(app, []string{alice.String()}, false); err != nil {
		t.Fatal(err)
	}
	work := func(i int) Answer { return Answer{Work: agentbox.Digest{1, byte(i), byte(i >> 8)}} }
	for i := range maxGrants + 10 {
		o.grant(alice, app, false, work(i))
	}
	if g := o.granted[alice]; len(g.of) != maxGrants || len(g.order) != maxGrants {
		t.Errorf("%d, %d", len(g.of), len(g.order))
	}
	if o.Granted(alice, work(9).Work) || !o.Granted(alice, work(10).Work) || !o.Granted(alice, work(maxGrants+9).Work) {
		t.Error("others went")
	}
}

func TestOnlyWhoIsAllowed(t *testing.T) {
	o, prepared := owner(t)
	ask := func(p identity.PeerID) Answer { return o.answer(t.Context(), p, Question{Name: "t-1"}) }
	unknown := o.answer(t.Context(), alice, Question{Name: "t-2"})
	if got := ask(alice); !reflect.DeepEqual(got, unknown) || !got.Refused || *prepared != 0 {
		t.Errorf("nobody is allowed: %+v, unlike what does not exist: %+v", got, unknown)
	}
	if err := o.Share(Subject{ID: "t-1", Project: "app"}, []string{alice.String()}, false); err != nil {
		t.Fatal(err)
	}
	got := ask(alice)
	if got.Refused || !o.Granted(alice, got.Work) || !o.Granted(alice, got.Identity) {
		t.Errorf("%+v", got)
	}
	if o.Granted(bob, got.Work) || !ask(bob).Refused {
		t.Error("another member was allowed, too")
	}
	if o.Granted(alice, agentbox.Digest{9}) {
		t.Error("what was not handed over was granted")
	}
	if err := o.Share(Subject{ID: "t-1", Project: "app"}, nil, false); err != nil {
		t.Fatal(err)
	}
	if o.Granted(alice, got.Work) || !ask(alice).Refused {
		t.Error("it goes on after it was withdrawn")
	}
}

func TestProjectIsShared(t *testing.T) {
	o, _ := owner(t)
	if err := o.Share(OfProject("other"), []string{Everybody}, false); err != nil {
		t.Fatal(err)
	}
	if !o.answer(t.Context(), bob, Question{Name: "t-1"}).Refused {
		t.Error("another project is shared")
	}
	if err := o.Share(OfProject("app"), []string{Everybody}, false); err != nil {
		t.Fatal(err)
	}
	again := &Allowed{File: o.Allowed.File} // as the next daemon
	if may, err := again.May(Subject{ID: "t-1", Project: "app"}, bob); !may || err != nil {
		t.Errorf("%v, %v", may, err)
	}
}

// Who may only enter hands nothing back and pauses nothing, nor does anybody what it was not asked about.
func TestOnlyWhoMayPush(t *testing.T) {
	o, _ := owner(t)
	taken, stolen := 0, 0
	o.Accept = func(context.Context, Subject, identity.PeerID, Push) (Pushed, error) {
		taken++
		return Pushed{Ref: "r"}, nil
	}
	o.PauseFor = func(context.Context, Subject, identity.PeerID) error { stolen++; return nil }
	app := Subject{ID: "t-1", Project: "app"}
	if err := o.Share(app, []string{alice.String()}, true); err != nil {
		t.Fatal(err)
	}
	if !o.take(t.Context(), bob, Push{ID: "t-1"}).Refused || !o.take(t.Context(), alice, Push{ID: "t-2"}).Refused || taken != 0 {
		t.Error("it was taken")
	}
	if p := o.take(t.Context(), alice, Push{ID: "t-1"}); p.Refused || taken != 1 {
		t.Errorf("%+v", p)
	}
	if o.answer(t.Context(), alice, Question{Name: "t-1", Steal: true}).Refused || stolen != 1 {
		t.Error("not stolen")
	}
	if err := o.Share(app, []string{alice.String()}, false); err != nil { // the last call counts
		t.Fatal(err)
	}
	if !o.take(t.Context(), alice, Push{ID: "t-1"}).Refused || !o.answer(t.Context(), alice, Question{Name: "t-1", Steal: true}).Refused || o.answer(t.Context(), alice, Question{Name: "t-1"}).Refused {
		t.Error("the right to push was not withdrawn, or entering was")
	}
	d := agentbox.Digest{7}
	end := o.Lend(bob, d)
	if !o.Granted(bob, d) || o.Granted(alice, d) {
		t.Error("what is lent")
	}
	if end(); o.Granted(bob, d) {
		t.Error("it is lent for good")
	}
}

// A guest is let in by the right to push alone, and has to go when that is withdrawn.
func TestGuests(t *testing.T) {
	o, _ := owner(t)
	app := Subject{ID: "t-1", Project: "app"}
	refused := func(name string) error {
		t.Helper()
		_, _, _, err := o.Admit(t.Context(), alice, name)
		if agentbox.CodeOf(err) != agentbox.Forbidden || len(o.guests) != 0 {
			t.Errorf("%s: %v, %d guests", name, err, len(o.guests))
		}
		return err
	}
	if here, none := refused("t-1"), refused("t-2"); here == nil || here.Error() != none.Error() {
		t.Errorf("%v tells what is here, unlike %v", here, none)
	}
	if err := o.Share(app, []string{alice.String()}, false); err != nil {
		t.Fatal(err)
	}
	refused("t-1")
	if err := o.Share(app, []string{alice.String()}, true); err != nil {
		t.Fatal(err)
	}
	s, within, leave, err := o.Admit(t.Context(), alice, "t-1")
	if err != nil || s != app || within.Err() != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := o.Share(app, []string{alice.String(), bob.String()}, true); err != nil || within.Err() != nil {
		t.Errorf("another was allowed, and this one has to go: %v", err)
	}
	if err := o.Share(app, []string{alice.String()}, false); err != nil || within.Err() == nil {
		t.Errorf("it stays: %v", err)
	}
	if leave(); len(o.guests) != 0 {
		t.Errorf("%d guests are left", len(o.guests))
	}
}

func TestDamagedListAllowsNothing(t *testing.T) {
	for _, text := range []string{"", "{}", `{"version":2}`, `{"version":1,"allowed":[]}`, strings.Repeat(" ", maxAllowed+1)} {
		if _, err := decodeAllowed([]byte(text)); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func FuzzAllowed(f *testing.F) {
	f.Add([]byte(`{"version":1,"allowed":{"t-1":["*"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = decodeAllowed(b) })
}

// What a member answers to a push, and what it hands back, are texts to show and bytes to verify.
func FuzzPush(f *testing.F) {
	f.Add([]byte(`{"box":"a\u001bb","ref":"r"}`), []byte(`{"id":"t-1","from":{"version":1}}`))
	f.Add([]byte(`{"identity":{},"why":"\u001b[2J"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, answer, question []byte) {
		var p Pushed
		if json.Unmarshal(answer, &p) == nil && p.check() == nil {
			if text := p.Box + p.Ref + p.Why; agentbox.Printable(text) != text || len(p.Identity) == 0 && p.Ref == "" {
				t.Errorf("%+v", p)
			}
		}
		var q Push
		o, _ := owner(t)
		o.Accept = func(context.Context, Subject, identity.PeerID, Push) (Pushed, error) {
			t.Error("nobody may push")
			return Pushed{}, nil
		}
		if json.Unmarshal(question, &q) == nil && !o.take(t.Context(), bob, q).Refused {
			t.Error("not refused")
		}
	})
}
