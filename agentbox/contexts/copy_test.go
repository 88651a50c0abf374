package contexts

import (
	"reflect"
	"testing"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// A copy is handed to whom its owner allowed, and to nobody because of what this machine shares.
func TestCopy(t *testing.T) {
	o, _ := owner(t)
	name := "t-9@" + alice.String()
	kept := Copy{Owner: alice, Members: []string{bob.String()}, Answer: Answer{Identity: agentbox.Digest{4}, Snapshot: agentbox.Digest{5}, Work: agentbox.Digest{6}}}
	o.Copy = func(asked string) (Copy, bool) { return kept, asked == name }
	if err := o.Share(OfProject("app"), []string{Everybody}, true); err != nil {
		t.Fatal(err)
	}
	carol := identity.PeerID{3}
	if a := o.answer(t.Context(), carol, Question{Name: name}); !a.Refused || o.Granted(carol, kept.Answer.Work) {
		t.Errorf("%+v", a)
	}
	if a := o.answer(t.Context(), bob, Question{Name: name, Steal: true}); !a.Refused {
		t.Errorf("a copy has no box to pause: %+v", a)
	}
	if a := o.answer(t.Context(), bob, Question{Name: name, Bases: true}); !a.Refused || o.Granted(bob, kept.Answer.Work) {
		t.Errorf("a copy has no history of its own, and nothing of it was handed over: %+v", a)
	}
	if a := o.answer(t.Context(), bob, Question{Name: name}); !reflect.DeepEqual(a, kept.Answer) || !o.Granted(bob, kept.Answer.Work) {
		t.Errorf("%+v", a)
	}
	if kept.Members = nil; o.Granted(bob, kept.Answer.Work) {
		t.Error("it goes on after its owner withdrew it")
	}
}

// Who may enter something is told to those only that are to have a copy of it.
func TestMembersForCopies(t *testing.T) {
	o, _ := owner(t)
	app := Subject{ID: "t-1", Project: "app"}
	if err := o.Share(app, []string{alice.String(), bob.String()}, false); err != nil {
		t.Fatal(err)
	}
	o.Chosen = func(s Subject, member identity.PeerID) bool { return s == app && member == bob }
	if a := o.answer(t.Context(), alice, Question{Name: "t-1"}); a.Refused || len(a.Members) != 0 {
		t.Errorf("%+v", a)
	}
	if a := o.answer(t.Context(), bob, Question{Name: "t-1"}); len(a.Members) != 2 {
		t.Errorf("%+v", a)
	}
}
