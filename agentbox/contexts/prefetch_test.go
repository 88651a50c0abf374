package contexts

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/mesh/identity"
)

// Who may enter nothing is told of nothing, and gets no history, whatever else the machine has.
func TestBases(t *testing.T) {
	o, prepared := owner(t)
	all := []Subject{{"t-1", "app"}, {"0123456789ab", "app"}, {"t-3", "other"}, {"t-4", strings.Repeat("x", 300)}}
	o.Subjects = func(context.Context) ([]Subject, error) { return all, nil }
	o.Base = func(_ context.Context, s Subject) (Base, error) {
		if s.ID == "0123456789ab" {
			return Base{}, agentbox.Errorf(agentbox.NotFound, "it has just gone")
		}
		return Base{ID: s.ID, Project: s.Project}, nil
	}
	asked := []string(nil)
	o.History = func(_ context.Context, _ Subject, have []string) (agentbox.Digest, error) {
		asked = have
		return agentbox.Digest{8}, nil
	}
	if a := o.answer(t.Context(), bob, Question{Bases: true}); len(a.Bases) != 0 || a.Refused || a.Failed != "" {
		t.Errorf("nobody may enter anything: %+v", a)
	}
	if a := o.answer(t.Context(), bob, Question{Name: "t-1", Bases: true}); !a.Refused || o.Granted(bob, agentbox.Digest{8}) {
		t.Errorf("the history is handed to anybody: %+v", a)
	}
	if err := o.Share(OfProject("app"), []string{bob.String()}, false); err != nil {
		t.Fatal(err)
	}
	if err := o.Share(all[3], []string{bob.String()}, false); err != nil {
		t.Fatal(err)
	}
	if a := o.answer(t.Context(), bob, Question{Bases: true}); !reflect.DeepEqual(a.Bases, []Base{{ID: "t-1", Project: "app"}}) {
		t.Errorf("%+v", a)
	}
	if a := o.answer(t.Context(), alice, Question{Bases: true}); len(a.Bases) != 0 {
		t.Errorf("another member is told: %+v", a)
	}
	a := o.answer(t.Context(), bob, Question{Name: "t-1", Bases: true, Have: slices.Repeat([]string{"c"}, 5000)})
	if a.History != (agentbox.Digest{8}) || !o.Granted(bob, a.History) || o.Granted(alice, a.History) || len(asked) != maxCommits {
		t.Errorf("%+v, which asked for %d commits", a, len(asked))
	}
	if *prepared != 0 {
		t.Error("a snapshot was made of what nobody enters")
	}
	for range 100 {
		all = append(all, Subject{"t-1", "app"})
	}
	most := agentbox.Digest{255}
	o.Base = func(context.Context, Subject) (Base, error) {
		return Base{strings.Repeat("t", 40), strings.Repeat("<", maxProject), strings.Repeat("c", 64), most, most, most}, nil
	}
	b, err := json.Marshal(o.answer(t.Context(), bob, Question{Bases: true}))
	if err != nil || len(b) > maxList || len(b) < maxList/4 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestCompare(t *testing.T) {
	one, two := Base{ID: "t-1", Project: "app", Commit: "1"}, Base{ID: "t-1", Project: "app", Commit: "2"}
	ahead := func(owner identity.PeerID, b Base, problem string) Ahead {
		return Ahead{Owner: owner, Base: b, Bytes: 5, Problem: problem}
	}
	none := []Ahead(nil)
	for name, c := range map[string]struct {
		have            []Ahead
		offered         map[identity.PeerID][]Base
		get, keep, gone []Ahead
	}{
		"new":                {nil, map[identity.PeerID][]Base{alice: {one}}, []Ahead{{Owner: alice, Base: one}}, none, none},
		"here":               {[]Ahead{ahead(alice, one, "")}, map[identity.PeerID][]Base{alice: {one}}, none, []Ahead{ahead(alice, one, "")}, none},
		"of another member":  {[]Ahead{ahead(bob, one, "")}, map[identity.PeerID][]Base{alice: {one}}, []Ahead{{Owner: alice, Base: one}}, []Ahead{ahead(bob, one, "")}, none},
		"part of it is here": {[]Ahead{ahead(alice, one, "no")}, map[identity.PeerID][]Base{alice: {one}}, []Ahead{ahead(alice, one, "")}, none, none},
		"changed":            {[]Ahead{ahead(alice, one, "")}, map[identity.PeerID][]Base{alice: {two}}, []Ahead{{Owner: alice, Base: two}}, none, []Ahead{ahead(alice, one, "")}},
		"withdrawn":          {[]Ahead{ahead(alice, one, "")}, map[identity.PeerID][]Base{alice: {}}, none, none, []Ahead{ahead(alice, one, "")}},
		"away":               {[]Ahead{ahead(alice, one, "no")}, nil, none, []Ahead{ahead(alice, one, "no")}, none},
	} {
		get, keep, gone := Compare(c.have, c.offered)
		if !slices.Equal(get, c.get) || !slices.Equal(keep, c.keep) || !slices.Equal(gone, c.gone) {
			t.Errorf("%s: get %+v, keep %+v, gone %+v", name, get, keep, gone)
		}
	}
}
