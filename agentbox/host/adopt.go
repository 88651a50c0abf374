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

// adoption takes up what an earlier daemon left.
type adoption struct {
	boxes    *table
	disk     disk
	machines *machines
	remove   func(*box) error
}

// all takes up every box an earlier daemon left: running ones go on, half-made and half-removed
// ones are removed, machines of the pool too.
func (a adoption) all() error {
	entries, err := os.ReadDir(a.boxes.home.Boxes())
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(a.boxes.home.Boxes(), e.Name())
		if strings.HasSuffix(e.Name(), ".removed") {
			if err := a.disk.removeTree(agentbox.GVisor, path); err != nil { // of whatever kind it was: only that one needs more than to be removed
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
	if rec.Phase != phaseReady || rec.Ephemeral {
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
// on does not.
const adoptTimeout = 30 * time.Second

// orphaned tells whether a supervisor runs a machine that never became this box: the daemon went
// away between starting it and giving it the workspace.
func (a adoption) orphaned(rec record, s *supervisors.Supervisor) bool {
	ctx, cancel := context.WithTimeout(a.machines.ctx, adoptTimeout)
	defer cancel()
	st, err := s.Status(ctx, api.StatusRequest{})
	return err != nil || !st.Attached || st.Life != rec.Life
}

// settle removes what half-done operations on a ready box left.
func (a adoption) settle(b *box) error {
	rec := b.record()
	names := rec.names(a.boxes.home)
	if b.live() != nil {
		// It runs: whatever was saved before is out of date.
		return errors.Join(a.disk.dropSaved(rec), a.disk.sweep(rec))
	}
	_, err := os.Stat(names.Resuming())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what a resume left: %w", err)
	}
	if err == nil {
		// A resume was cut short, and the machine may have run on the disks since: its memory fits
		// them no more.
		if err := os.RemoveAll(names.Resuming()); err != nil {
			return err
		}
		b.set(func(b *box) { b.rec.Box.Ended = &agentbox.End{Cause: agentbox.EndResumed} })
	}
	return a.disk.sweep(rec)
}

// dropOrphanRuns removes the socket directories of boxes that no longer exist.
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
