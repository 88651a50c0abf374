package host

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
)

var away = api.LiveMove{Peer: "p", Token: "t"}

// returning is a box that was given away, as a daemon leaves it that dies while what ran in it comes back.
func returning(t *testing.T, h home.Home, step api.Step) (home.Box, string) {
	t.Helper()
	rec := newTestRecord("mine")
	rec.MovedTo, rec.PausedFor = &away, "two"
	rec.Arrived = &arrived{LiveMove: api.LiveMove{Peer: "p", Token: "back"}, ID: "theirs", Step: step, Back: &movedBefore{away, "two", 1}}
	names := write(t, h, rec)
	touch(t, names.Saved()+"/memory", names.Dir+"/workspace-1/", names.Dir+"/workspace-2/")
	return names, rec.Box.ID.String()
}

// has tells which of the two workspaces of a box there are, and whether something is saved.
func has(names home.Box) [3]bool {
	return [3]bool{exists(filepath.Join(names.Dir, "workspace-1")), exists(filepath.Join(names.Dir, "workspace-2")), exists(names.Saved())}
}

var (
	asBefore = [3]bool{true, false, false}
	both     = [3]bool{true, true, true}
	asMoved  = [3]bool{false, true, true}
)

// What comes back to a box is this machine's once the other one has said so, and until then the box is
// given away, with the files that it had: whenever the daemon dies.
func TestWhatComesBackWaitsForItsWord(t *testing.T) {
	for step, want := range map[api.Step][3]bool{"": asBefore, api.StepAsked: both, api.StepLeaving: asBefore} {
		h := newHome(t)
		names, id := returning(t, h, step)
		m := manage(t, h)
		moves, ref := MovesOf(m), api.BoxRef{Box: id}
		if g, ok := moves.MovedTo(t.Context(), id); !ok || g != away || has(names) != want {
			t.Errorf("%q: given %v, %v", step, g, has(names))
		}
		if _, err := m.Resume(t.Context(), ref, nil); agentbox.CodeOf(err) != agentbox.Conflict {
			t.Errorf("%q: %v", step, err)
		}
		if err := errors.Join(moves.Runs(t.Context(), id, away), moves.TakeBack(t.Context(), id, away)); err != nil || has(names) != want {
			t.Errorf("%q: the machine that has it said more of the first move: %v, %v", step, has(names), err)
		}
		open := len(moves.Arrivals())
		if step == "" {
			if open != 0 {
				t.Error("nobody was asked, and somebody waits")
			}
			continue
		}
		if _, err := m.Remove(t.Context(), ref, nil); open != 1 || agentbox.CodeOf(err) != agentbox.Conflict || has(names) != want {
			t.Errorf("%q: %d, %v", step, open, err)
		}
	}
}

func TestWhatComesBackIsMine(t *testing.T) {
	h := newHome(t)
	names, id := returning(t, h, api.StepAsked)
	m := manage(t, h)
	a := MovesOf(m).Arrivals()[0]
	for range 2 { // it does not start the first time
		if err := a.Record(api.StepMine); err != nil {
			t.Fatal(err)
		}
		b, err := m.boxes.find(t.Context(), api.BoxRef{Box: id})
		if err != nil {
			t.Fatal(err)
		}
		rec := b.record()
		if rec.MovedTo != nil || rec.PausedFor != "" || rec.Workspace != 2 || rec.Life != 2 || b.state(m.disk) != agentbox.Paused || has(names) != both {
			t.Fatalf("%+v, %v", rec, has(names))
		}
		if _, err := MovesOf(m).Pause(t.Context(), id); agentbox.CodeOf(err) != agentbox.Conflict {
			t.Errorf("it is given away before its machine knows that it came: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		m = manage(t, h)
		if kept, err := m.disk.kept(rec); err != nil || kept != place.Whole || has(names) != asMoved {
			t.Errorf("the next daemon: %v, %v, %v", kept, has(names), err)
		}
		a = MovesOf(m).Arrivals()[0]
		if err := a.Record(api.StepLeaving); err != nil {
			t.Fatal(err)
		}
		touch(t, names.Saved()+"/memory", names.Dir+"/workspace-1/", names.Dir+"/workspace-2/")
		rec = a.b.record()
		if rec.MovedTo == nil || *rec.MovedTo != away || rec.PausedFor != "two" || rec.Workspace != 1 {
			t.Errorf("it leaves: %+v", rec)
		}
		rec.Life = 1
		a.b.set(func(b *box) { b.rec = rec })
	}
}

// It was not handed over, or it cannot run here: the box is given away as before.
func TestWhatDoesNotComeBackLeavesNothing(t *testing.T) {
	h := newHome(t)
	names, id := returning(t, h, api.StepAsked)
	m := manage(t, h)
	if err := MovesOf(m).Arrivals()[0].Drop(); err != nil || has(names) != asBefore || len(MovesOf(m).Arrivals()) != 0 {
		t.Errorf("%v, %v", has(names), err)
	}
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: id})
	if err != nil || b.record().MovedTo == nil || b.record().Arrived != nil {
		t.Errorf("%+v, %v", b.record(), err)
	}
}

// Who wants the box to begin afresh gives up what comes back, which is the other machine's then.
func TestResetGivesUpWhatComesBack(t *testing.T) {
	h := newHome(t)
	names, id := returning(t, h, api.StepAsked)
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := giveUp(m, b); err != nil || has(names) != asBefore {
		t.Fatalf("%v, %v", has(names), err)
	}
	if err := b.change(h, func(rec *record) { rec.MovedTo, rec.PausedFor = nil, "" }); err != nil { // a reset
		t.Fatal(err)
	}
	touch(t, names.Saved()+"/memory") // and a pause
	a := MovesOf(m).Arrivals()[0]
	if a.Step() != api.StepLeaving {
		t.Error(a.Step())
	}
	if err := a.Drop(); err != nil || !exists(names.Saved()) || len(MovesOf(m).Arrivals()) != 0 {
		t.Errorf("%v, %v", has(names), err)
	}
}

// A box takes back only what it gave away, and once.
func TestOnlyWhatWasGivenComesBack(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	rec.MovedTo, rec.PausedFor = &away, "two"
	names := write(t, h, rec)
	touch(t, names.Saved()+"/memory", names.Dir+"/workspace-1/")
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	is := rec.Box
	same := api.Live{Peer: "p", ID: "theirs", Isolation: is.Isolation, CPUs: is.CPUs, Memory: is.Memory, Disk: is.Disk, Image: is.Image}
	larger := same
	larger.Memory *= 2
	for name, try := range map[string]func() error{
		"another move": func() error { return MovesOf(m).expect(t.Context(), b, api.LiveMove{Peer: "p", Token: "other"}, same) },
		"another size": func() error { return MovesOf(m).expect(t.Context(), b, away, larger) },
	} {
		if err := try(); agentbox.CodeOf(err) != agentbox.Conflict || !exists(names.Saved()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, _, err := MovesOf(m).Origin(context.Background(), is.ID); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("it came from nowhere: %v", err)
	}
}
