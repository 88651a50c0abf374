package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// adoption takes over what an earlier daemon left. That daemon may have been stopped, killed at any
// step of any operation, or lost with the host. It runs once, before anyone can ask for a box, so
// nothing is locked here. A box that cannot be taken over stays on disk as it is, does not stop the
// others, and is named in table.unread.
type adoption struct {
	boxes    *table
	disk     disk
	machines *machines
	remove   func(*box) error
	discard  func(agentbox.BoxID) error // removes what is left of a box without a record
}

// all takes over every box. Running boxes go on, those that arrive wait for a word of the machine
// that they come from; half-made and half-removed ones are removed, and so are machines of the pool,
// since nobody has a lease on them.
func (a adoption) all() error {
	entries, err := os.ReadDir(a.boxes.home.Boxes())
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(a.boxes.home.Boxes(), e.Name())
		if strings.HasSuffix(e.Name(), ".removed") {
			id, err := agentbox.ParseBoxID(strings.TrimSuffix(e.Name(), ".removed"))
			if err == nil {
				err = a.discard(id)
			}
			if err != nil {
				a.machines.log.Error("cannot finish removing a box", "directory", path, "error", err)
			}
			continue
		}
		id, err := agentbox.ParseBoxID(e.Name())
		if err != nil {
			a.machines.log.Warn("not a box, left alone", "path", path)
			continue
		}
		if err := a.box(id); err != nil {
			a.machines.log.Error("cannot adopt a box", "box", id, "error", err)
			if !a.boxes.known(id) {
				a.boxes.unread = append(a.boxes.unread, fmt.Sprintf("box %s is not taken up: %v", id, err))
			}
		}
	}
	return a.dropOrphanRuns()
}

// box takes over one box by the facts beside its record. A directory without a record is a box that
// nobody was told of, so its supervisor is killed and the directory removed. The box enters the
// table before anything that can fail, so that it is listed, and a failed removal is retried by
// tidy.
func (a adoption) box(id agentbox.BoxID) error {
	rec, err := readRecord(a.boxes.home.Box(id).Record())
	if errors.Is(err, os.ErrNotExist) {
		return a.discard(id)
	}
	if err != nil {
		return err
	}
	b := &box{rec: rec}
	kind, err := a.disk.kind(rec)
	if err != nil {
		return err
	}
	p, err := kind.Recover(a.machines.ctx, rec.spec())
	none := agentbox.CodeOf(err) == agentbox.NotFound
	if err != nil && !none {
		return err
	}
	a.boxes.put(b)
	// remove ends the machine, so it has to know it. Nothing follows a machine that is removed.
	if rec.Phase == phaseMoving || rec.comesBack() && rec.Arrived.Step == api.StepAsked {
		return nil // Arrivals
	}
	if rec.comesBack() { // cut short before it was asked for, or while it was dropped
		if err := a.giveUp(b); err != nil {
			return err
		}
	}
	if rec.Phase != phaseReady {
		b.live = p
		return a.remove(b)
	}
	switch {
	case none:
		a.machines.recordPastEnd(b, agentbox.AsError(err).End)
	case a.orphaned(rec, p):
		if err := p.Stop(stopGrace); err != nil {
			return err
		}
		end, _ := p.End()
		a.machines.recordPastEnd(b, &end)
	default:
		a.machines.follow(b, p)
		if st, err := a.ask(p); err == nil && st.Frozen {
			b.set(func(b *box) { b.still = p })
		}
	}
	return a.settle(b)
}

// giveUp drops what came of a box that stays moved.
func (a adoption) giveUp(b *box) error {
	rec := b.record()
	if err := a.disk.dropArrival(rec); err != nil || rec.Arrived.Step == api.StepLeaving {
		return err
	}
	rec.Arrived = nil
	return b.commit(a.disk.home, rec)
}

// adoptTimeout is how long a supervisor may take to describe its machine; one that was never told
// to start does not answer. The daemon waits for each supervisor when it starts.
const adoptTimeout = 30 * time.Second

// orphaned tells whether a supervisor's machine never became this box, because the daemon died
// before it attached the workspace, or belongs to a life that the record does not name, as after an
// interrupted rollback. Such a machine is ended, and the next use of the box starts a new life. A
// supervisor that does not answer counts as orphaned too, because nobody could use it.
func (a adoption) orphaned(rec record, p place.Place) bool {
	st, err := a.ask(p)
	return err != nil || !st.Configured || st.Life != rec.Life
}

func (a adoption) ask(p place.Place) (place.Status, error) {
	ctx, cancel := context.WithTimeout(a.machines.ctx, adoptTimeout)
	defer cancel()
	return p.Status(ctx, place.Question{})
}

// settle removes what half-done operations on a ready box left, and brings the box into a state to
// continue from. docs/internals/architecture.md lists what each operation may leave.
func (a adoption) settle(b *box) error {
	rec := b.record()
	if b.place() != nil {
		// What it was restored from is out of date. What is Whole is not: the place makes it when the
		// box is paused, perhaps right now.
		return errors.Join(a.disk.dropKept(rec, false), a.disk.sweep(rec, false))
	}
	kept, err := a.disk.kept(rec)
	if err != nil {
		return fmt.Errorf("clean up after a resume: %w", err)
	}
	if kept == place.Spent {
		// A resume was cut short, and the machine may have run on the disks since.
		if err := a.machines.dropMemory(b); err != nil {
			return err
		}
	}
	return errors.Join(a.disk.dropKept(rec, false), a.disk.sweep(rec, true))
}

// dropOrphanRuns removes the socket directories of boxes that no longer exist. The path of a socket
// is limited to about a hundred bytes, so these directories are not inside the boxes' own, and an
// interrupted removal can leave one behind.
func (a adoption) dropOrphanRuns() error {
	entries, err := os.ReadDir(a.boxes.home.Run())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id, err := agentbox.ParseBoxID(e.Name())
		if err != nil {
			continue
		}
		known := a.boxes.known(id)
		names := a.boxes.home.Box(id)
		// A box whose record cannot be read, perhaps of a later version, is left alone.
		if _, err := os.Lstat(names.Dir); !known && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, a.discard(id))
		}
	}
	return errors.Join(errs...)
}
