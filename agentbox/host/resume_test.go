package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
	"agentbox/tools/suites/placetest"
)

// paused is a box with a saved machine, and machines that start as greet says.
func paused(t *testing.T, greet func(fake *placetest.Fake, id agentbox.BoxID) error) (*machines, *box, *placetest.Fake) {
	t.Helper()
	h := newHome(t)
	rec := newTestRecord("mine")
	write(t, h, rec)
	m, fake := newTestMachines(t, h, nil)
	fake.Keep(rec.Box.ID, place.Whole)
	fake.OnStart = func(spec place.Spec, _ *place.Identity) error { return greet(fake, spec.ID) }
	return m, &box{rec: rec}, fake
}

// kept is what is left of a pause.
func kept(t *testing.T, fake *placetest.Fake, b *box) place.Kept {
	t.Helper()
	k, err := fake.Kept(b.record().Box.ID)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A machine that ran has written to its disks, so what was saved of it is of no use any more.
func TestResumeFailureAfterGuestRan(t *testing.T) {
	dead := errors.New("the guest does not answer")
	m, b, fake := paused(t, func(fake *placetest.Fake, id agentbox.BoxID) error {
		fake.Keep(id, place.Spent)
		return dead
	})
	err := m.resume(t.Context(), b, nil)
	if e := agentbox.AsError(err); err == nil || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if got := kept(t, fake, b); got != place.Nothing || b.state(m.disk) != agentbox.Stopped {
		t.Errorf("kept %v, %s", got, b.state(m.disk))
	}
	onDisk, err := readRecord(b.record().names(m.home).Record())
	if err != nil || onDisk.Box.Ended == nil || onDisk.Box.Ended.Cause != agentbox.EndResumed {
		t.Errorf("ended %+v, %v", onDisk.Box.Ended, err)
	}
}

// A machine that could not be started has changed nothing: the box stays paused with its processes.
func TestResumeFailureBeforeGuestRan(t *testing.T) {
	full := agentbox.Errorf(agentbox.NoSpace, "no memory is left")
	m, b, fake := paused(t, func(*placetest.Fake, agentbox.BoxID) error { return full })
	if err := m.resume(t.Context(), b, nil); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("%v", err)
	}
	if kept(t, fake, b) != place.Whole || b.state(m.disk) != agentbox.Paused {
		t.Errorf("it is %s", b.state(m.disk))
	}
}

// interrupting is a kind whose caller interrupts when a place is created.
type interrupting struct {
	*placetest.Fake
	interrupt func()
}

func (i interrupting) Create(ctx context.Context, spec place.Spec, progress agentbox.Progress) (place.Place, error) {
	defer i.interrupt()
	return i.Fake.Create(ctx, spec, progress)
}

// A user who interrupts a resume before its machine is wanted has a paused box.
func TestResumeInterruptedBeforeStart(t *testing.T) {
	m, b, fake := paused(t, func(*placetest.Fake, agentbox.BoxID) error {
		t.Error("the machine is started before it is wanted")
		return nil
	})
	ctx, interrupt := context.WithCancel(t.Context())
	m.disk = diskOf(m.home, interrupting{fake, interrupt})
	if err := m.resume(ctx, b, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if kept(t, fake, b) != place.Whole || b.state(m.disk) != agentbox.Paused {
		t.Errorf("it is %s", b.state(m.disk))
	}
}

// From there on an interruption would cost the processes in the box, so the resume goes on.
func TestResumeInterruptedAfterStart(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	m, b, fake := paused(t, func(*placetest.Fake, agentbox.BoxID) error {
		interrupt()
		return nil
	})
	if err := m.resume(ctx, b, nil); err != nil {
		t.Error(err)
	}
	if kept(t, fake, b) != place.Nothing || b.state(m.disk) != agentbox.Running {
		t.Errorf("it is %s", b.state(m.disk))
	}
}

// A box that was paused has another machine after a rollback, over whose disks the pause must never
// be restored, wherever the rollback is cut short.
func TestInterruptedRollbackDropsPauseFirst(t *testing.T) {
	m, b, fake := paused(t, func(*placetest.Fake, agentbox.BoxID) error { return nil })
	rec := b.record()
	record := rec.names(m.home).Record()
	if err := errors.Join(os.MkdirAll(filepath.Join(fake.Dir, rec.Box.ID.String(), "saved-c"), 0o700), os.Remove(record), os.MkdirAll(record+"/in the way", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := m.rollback(t.Context(), b, "c", nil); err == nil {
		t.Error("a record was written over a directory")
	}
	if kept(t, fake, b) != place.Nothing {
		t.Error("the pause is still there")
	}
}

// A place may pause its box while a new daemon starts, and that must not lose what it saves.
func TestAdoptKeepsPauseUnderWay(t *testing.T) {
	m, b, fake := paused(t, nil)
	live, err := fake.Create(t.Context(), b.record().spec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.live = live
	if err := (adoption{boxes: newTable(m.home), disk: m.disk, machines: m}).settle(b); err != nil {
		t.Fatal(err)
	}
	if got := kept(t, fake, b); got != place.Whole {
		t.Errorf("kept %v", got)
	}
}

// A removal that failed halfway is tried again by itself. Until then the box is not one that may
// run.
func TestRemovedBoxIsNotStarted(t *testing.T) {
	h := newHome(t)
	touch(t, write(t, h, newTestRecord("mine")).Saved()+"/memory")
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	b.set(func(b *box) { b.rec.Phase = phaseRemoving })
	if err := m.ensureRunning(t.Context(), b, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}

// A removal that somebody waits for may fail, as the box's machine does not answer, and the box is
// theirs again. What tries failed removals again must not go on with it.
func TestTidyLeavesBoxWhoseRemovalIsUnderWay(t *testing.T) {
	h := newHome(t)
	names := write(t, h, newTestRecord("mine"))
	m := manage(t, h)
	b, err := m.boxes.find(t.Context(), api.BoxRef{Box: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	phase := func(p phase) { b.set(func(b *box) { b.rec.Phase = p }) }
	b.op.Lock()
	phase(phaseRemoving)
	m.tidy()
	phase(phaseReady)
	b.op.Unlock()
	if m.tidy(); !exists(names.Dir) {
		t.Fatal("the box was removed")
	}
	phase(phaseRemoving)
	if m.tidy(); exists(names.Dir) {
		t.Error("a failed removal was not tried again")
	}
}
