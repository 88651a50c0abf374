package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/supervisors"
)

// adoption takes up what an earlier daemon left: it may have been stopped, killed at any step of
// any operation, or lost with the host. It runs once, before anybody else can ask for a box, so
// nothing here is locked. One box that cannot be taken up does not keep the others from it: it
// stays as it is on disk, and unread says so wherever boxes are listed.
type adoption struct {
	boxes    *table
	disk     disk
	machines *machines
	remove   func(*box) error
}

// all takes up every box: running ones go on, half-made and half-removed ones are removed, machines
// of the pool too, as nobody has a lease on them.
func (a adoption) all() error {
	entries, err := os.ReadDir(a.boxes.home.Boxes())
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(a.boxes.home.Boxes(), e.Name())
		if strings.HasSuffix(e.Name(), ".removed") {
			// Of whatever kind it was: only that one needs more than to be removed.
			if err := a.disk.removeTree(agentbox.GVisor, path); err != nil {
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
			a.machines.log.Error("cannot take up a box", "box", id, "error", err)
			if !a.boxes.known(id) {
				a.boxes.unread = append(a.boxes.unread, fmt.Sprintf("box %s is not taken up: %v", id, err))
			}
		}
	}
	return a.dropOrphanRuns()
}

// box takes up one box by the facts beside its record. Of a directory without a record nothing was
// announced yet, so its supervisor, which may have been started meanwhile, is killed and the
// directory goes. The box is in the table before anything that can fail, so that it is shown and a
// removal that fails is tried again by tidy.
func (a adoption) box(id agentbox.BoxID) error {
	names := a.boxes.home.Box(id)
	rec, err := readRecord(names.Record())
	if errors.Is(err, os.ErrNotExist) {
		// Nothing was announced yet, so nothing is lost.
		return errors.Join(supervisors.KillHolder(names.Lock()), os.RemoveAll(names.Dir), os.RemoveAll(names.Run))
	}
	if err != nil {
		return err
	}
	b := &box{rec: rec}
	s, err := supervisors.Adopt(a.machines.ctx, names, a.machines.running.Go)
	if err != nil {
		return err
	}
	a.boxes.put(b)
	// remove ends the machine, so it has to know it; nobody follows one that goes.
	if rec.Phase != phaseReady {
		b.sup = s
		return a.remove(b)
	}
	if s != nil && a.orphaned(rec, s) {
		if err := s.Stop(supervisors.Grace); err != nil {
			return err
		}
		s = nil
	}
	if s != nil {
		a.machines.follow(b, s)
	} else {
		a.machines.endedAlone(b)
	}
	return a.settle(b)
}

// adoptTimeout is how long a supervisor may take to say what it runs: one that was never told to go
// on does not. It bounds the start of the daemon, which waits for each.
const adoptTimeout = 30 * time.Second

// orphaned tells whether a supervisor runs a machine that never became this box, because the daemon
// went away between starting it and giving it the workspace, or that is of a life that the record
// does not name, as after a rollback that was cut short. Such a machine is ended, and the next use
// of the box begins a new life. One that does not answer counts as orphaned, too: nobody could use
// it.
func (a adoption) orphaned(rec record, s *supervisors.Supervisor) bool {
	ctx, cancel := context.WithTimeout(a.machines.ctx, adoptTimeout)
	defer cancel()
	st, err := s.Status(ctx, api.StatusRequest{})
	return err != nil || !st.Attached || st.Life != rec.Life
}

// settle removes what half-done operations on a ready box left, and makes of each a state that can
// be gone on from; the table in docs/internals/architecture.md has what each may leave.
func (a adoption) settle(b *box) error {
	rec := b.record()
	names := rec.names(a.boxes.home)
	if b.live() != nil {
		// It runs, so what it was restored from is out of date. What has the name Saved is not: its
		// supervisor makes that when it pauses the box, perhaps now.
		return errors.Join(os.RemoveAll(names.Resuming()), a.disk.sweep(rec))
	}
	_, err := os.Stat(names.Resuming())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what a resume left: %w", err)
	}
	if err == nil {
		// A resume was cut short, and the machine may have run on the disks since.
		if err := a.machines.dropMemory(b); err != nil {
			return err
		}
	}
	return errors.Join(a.disk.sweepSaves(rec), a.disk.sweep(rec))
}

// dropOrphanRuns removes the socket directories of boxes that no longer exist. They are elsewhere
// than the boxes' own directories, since the path of a socket may be some hundred bytes long only,
// so a removal that was cut short can leave one of them alone.
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
		// A box whose record we cannot read, of a later version say, is none of ours to end.
		if _, err := os.Lstat(names.Dir); !known && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, supervisors.KillHolder(names.Lock()), os.RemoveAll(names.Run))
		}
	}
	return errors.Join(errs...)
}
