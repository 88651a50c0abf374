package host

import (
	"context"
	"errors"
	"os"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/vmm"
)

// paused is a box with a saved machine, and machines whose supervisors do what onStart does with
// it.
func paused(t *testing.T, greet func(names home.Box) error) (*machines, *box, home.Box) {
	t.Helper()
	h := newHome(t)
	rec := newTestRecord("mine")
	names := write(t, h, rec)
	touch(t, names.Saved()+"/memory")
	m, c := newTestMachines(t, h, nil)
	c.onStart = func(supervisor.Config) error { return greet(names) }
	return m, &box{rec: rec}, names
}

// ran is what a supervisor does with a saved machine before its guest runs.
func ran(names home.Box) error {
	if exists(names.Resuming()) {
		return nil
	}
	return os.Rename(names.Saved(), names.Resuming())
}

// A machine that ran has written to its disks, so what was saved of it is of no use any more.
func TestResumeFailureAfterGuestRan(t *testing.T) {
	dead := errors.New("the guest does not answer")
	m, b, names := paused(t, func(names home.Box) error { return errors.Join(ran(names), dead) })
	err := m.resume(t.Context(), b, nil, nil)
	if e := agentbox.AsError(err); err == nil || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if exists(names.Saved()) || exists(names.Resuming()) || b.state(m.home) != agentbox.Stopped {
		t.Errorf("saved %v, resuming %v, %s", exists(names.Saved()), exists(names.Resuming()), b.state(m.home))
	}
	onDisk, err := readRecord(names.Record())
	if err != nil || onDisk.Box.Ended == nil || onDisk.Box.Ended.Cause != agentbox.EndResumed {
		t.Errorf("ended %+v, %v", onDisk.Box.Ended, err)
	}
}

// A machine that could not be started has changed nothing: the box stays paused with its processes.
func TestResumeFailureBeforeGuestRan(t *testing.T) {
	full := agentbox.Errorf(agentbox.NoSpace, "no memory is left")
	m, b, names := paused(t, func(home.Box) error { return full })
	if err := m.resume(t.Context(), b, nil, nil); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("%v", err)
	}
	if !exists(names.Saved()+"/memory") || b.state(m.home) != agentbox.Paused {
		t.Errorf("it is %s", b.state(m.home))
	}
}

// A user who interrupts a resume before its machine is wanted has a paused box.
func TestResumeInterruptedBeforeStart(t *testing.T) {
	m, b, names := paused(t, func(names home.Box) error { return errors.Join(ran(names), errors.New("it must not be started")) })
	ctx, interrupt := context.WithCancel(t.Context())
	spawn := m.spawn
	m.spawn = func(cfg supervisor.Config, tpl vmm.Template) (*supervisors.Supervisor, error) {
		if !cfg.Pending {
			t.Error("the machine is started before it is wanted")
		}
		defer interrupt()
		return spawn(cfg, tpl)
	}
	if err := m.resume(ctx, b, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if !exists(names.Saved()+"/memory") || b.state(m.home) != agentbox.Paused {
		t.Errorf("it is %s", b.state(m.home))
	}
}

// From there on an interruption would cost the processes in the box, so the resume goes on.
func TestResumeInterruptedAfterStart(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	m, b, names := paused(t, func(names home.Box) error {
		interrupt()
		return ran(names)
	})
	if err := m.resume(ctx, b, nil, nil); err != nil {
		t.Error(err)
	}
	if exists(names.Saved()) || exists(names.Resuming()) || b.state(m.home) != agentbox.Running {
		t.Errorf("it is %s", b.state(m.home))
	}
}

// A box that was paused has another machine after a rollback, over whose disks the pause must never
// be restored, wherever the rollback is cut short.
func TestInterruptedRollbackDropsPauseFirst(t *testing.T) {
	m, b, names := paused(t, func(home.Box) error { return nil })
	touch(t, names.Checkpoints()+"/c/")
	if err := errors.Join(os.Remove(names.Record()), os.MkdirAll(names.Record()+"/in the way", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := m.rollback(t.Context(), b, names.Checkpoints()+"/c", nil, nil); err == nil {
		t.Error("a record was written over a directory")
	}
	if exists(names.Saved()) {
		t.Error("the pause is still there")
	}
}

// A supervisor may pause its box while a new daemon starts, and that must not lose what it saves.
func TestAdoptKeepsPauseUnderWay(t *testing.T) {
	m, b, names := paused(t, nil)
	touch(t, names.Resuming()+"/memory")
	b.sup = &supervisors.Supervisor{Box: names}
	if err := (adoption{boxes: newTable(m.home), disk: m.disk, machines: m}).settle(b); err != nil {
		t.Fatal(err)
	}
	if !exists(names.Saved()+"/memory") || exists(names.Resuming()) {
		t.Errorf("saved %v, resuming %v", exists(names.Saved()), exists(names.Resuming()))
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
