package host

import (
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// What was given to another machine runs here in no way, also for a later daemon, until its user begins
// afresh. Only the move that has it changes that.
func TestGivenBoxNeverRuns(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	given := api.LiveMove{Peer: "p", Token: "t"}
	rec.MovedTo, rec.PausedFor = &given, "two" // it was paused when it was given
	names := write(t, h, rec)
	touch(t, names.Saved()+"/memory")
	ref, id := api.BoxRef{Box: "mine"}, rec.Box.ID.String()
	for range 2 {
		m := manage(t, h)
		for name, do := range map[string]func() error{
			"resume":     func() error { _, err := m.Resume(t.Context(), ref, nil); return err },
			"connect":    func() error { _, err := m.Connect(t.Context(), ref, nil); return err },
			"fork":       func() error { _, err := m.Fork(t.Context(), api.ForkRequest{BoxRef: ref}, nil); return err },
			"checkpoint": func() error { _, err := m.Checkpoint(t.Context(), api.CheckpointRequest{BoxRef: ref}, nil); return err },
			"history":    func() error { b, _ := m.boxes.find(t.Context(), ref); return m.machines.resume(t.Context(), b, nil) },
			"move":       func() error { _, err := MovesOf(m).Pause(t.Context(), id); return err },
		} {
			if err := do(); agentbox.CodeOf(err) != agentbox.Conflict {
				t.Errorf("%s: %v", name, err)
			}
		}
		shown, err := m.Show(t.Context(), ref, nil)
		if err != nil || len(shown.Problems) == 0 || shown.Problems[0] != (agentbox.Problem{Kind: agentbox.ProblemMoved, From: "two"}) {
			t.Errorf("%+v, %v", shown.Problems, err)
		}
		moves, other := MovesOf(m), api.LiveMove{Peer: "p", Token: "other"}
		if err := moves.Runs(t.Context(), id, other); err != nil || !exists(names.Saved()) {
			t.Errorf("another move dropped what was saved: %v", err)
		}
		if err := moves.TakeBack(t.Context(), id, other); err != nil {
			t.Error(err)
		}
		if g, ok := moves.MovedTo(t.Context(), id); !ok || g != given {
			t.Errorf("another move took it back: %v", g)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	m := manage(t, h)
	moves := MovesOf(m)
	if err := moves.TakeBack(t.Context(), id, given); err != nil {
		t.Fatal(err)
	}
	if now, err := readRecord(names.Record()); err != nil || now.MovedTo != nil || now.PausedFor != "" || !exists(names.Saved()) {
		t.Errorf("%+v, %v", now.MovedTo, err)
	}
}

// A box that arrives outlives the daemon, unseen, until its machine has said whose it is.
func TestArrivalWaitsForItsWord(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	rec.Phase, rec.Arrived = phaseMoving, &arrived{LiveMove: api.LiveMove{Peer: "p", Token: "t"}, ID: "i", Step: "asked"}
	names := write(t, h, rec)
	touch(t, names.Saved()+"/memory")
	m := manage(t, h)
	if all, err := m.List(t.Context(), api.ListRequest{}, nil); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := m.Resume(t.Context(), api.BoxRef{Box: "mine"}, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
	all := MovesOf(m).Arrivals()
	if len(all) != 1 || all[0].Step() != api.StepAsked || all[0].Ran() {
		t.Fatalf("%+v", all)
	}
	if err := all[0].Alone(func() error { return all[0].Record(api.StepMine) }); err != nil {
		t.Fatal(err)
	}
	if shown, err := m.Show(t.Context(), api.BoxRef{Box: "mine"}, nil); err != nil || shown.State != agentbox.Paused {
		t.Errorf("%v, %v", shown.State, err)
	}
	if kept, err := m.disk.kept(rec); err != nil || kept != place.Whole {
		t.Errorf("%v, %v", kept, err)
	}
	if err := all[0].Alone(func() error { return all[0].Record(api.StepSettled) }); err != nil || len(MovesOf(m).Arrivals()) != 0 {
		t.Errorf("%v", err)
	}
}
