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
	"agentbox/agentbox/supervisor"
)

// adoptAll takes up every box an earlier daemon left: running ones go on, half-made and half-removed ones are removed,
// machines of the pool too.
func (m *Manager) adoptAll() error {
	entries, err := os.ReadDir(m.home.Boxes())
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(m.home.Boxes(), e.Name())
		if strings.HasSuffix(e.Name(), ".removed") {
			if err := m.disk.removeTree(agentbox.GVisor, path); err != nil { // of whatever kind it was: only that one needs more than to be removed
				m.log.Error("cannot finish removing a box", "directory", path, "error", err)
			}
			continue
		}
		id, err := agentbox.ParseBoxID(e.Name())
		if err != nil {
			m.log.Warn("not a box, left alone", "path", path)
			continue
		}
		if err := m.adoptBox(id); err != nil {
			m.log.Error("cannot take up a box", "box", id, "error", err)
			if !m.boxes.known(id) {
				m.boxes.unread = append(m.boxes.unread, fmt.Sprintf("box %s is not taken up: %v", id, err))
			}
		}
	}
	return m.dropOrphanRuns()
}

func (m *Manager) adoptBox(id agentbox.BoxID) error {
	names := m.home.Box(id)
	rec, err := readRecord(names.Record())
	if errors.Is(err, os.ErrNotExist) {
		// Nothing was announced yet, so nothing is lost.
		return errors.Join(supervisors.KillHolder(names.Lock()), os.RemoveAll(names.Dir), os.RemoveAll(names.Run))
	}
	if err != nil {
		return err
	}
	b := &box{rec: rec}
	s, err := supervisors.Adopt(m.ctx, names, m.running.Go)
	if err != nil {
		return err
	}
	m.boxes.put(b)
	if rec.Phase != phaseReady || rec.Ephemeral {
		b.sup = s
		return m.remove(b)
	}
	if s != nil && m.orphaned(rec, s) {
		if err := s.Stop(supervisors.Grace); err != nil {
			return err
		}
		s = nil
	}
	if s != nil {
		m.follow(b, s)
	} else {
		m.endedAlone(b)
	}
	return m.settle(b)
}

// endedAlone takes up why a machine ended while there was no daemon.
func (m *Manager) endedAlone(b *box) {
	exit, ok, err := supervisor.TakeExit(b.record().names(m.home).Dir)
	if err != nil {
		m.log.Warn("cannot read why a supervisor ended", "box", b.record().Box.ID, "error", err)
	}
	if !ok {
		return
	}
	if !exit.End.Asked() {
		b.set(func(b *box) { b.rec.Box.Ended = &exit.End })
		m.keepEnd(b)
	}
}

// adoptTimeout is how long a supervisor may take to say what it runs: one that was never told to go on does not.
const adoptTimeout = 30 * time.Second

// orphaned tells whether a supervisor runs a machine that never became this box: the daemon went away between starting
// it and giving it the workspace.
func (m *Manager) orphaned(rec record, s *supervisors.Supervisor) bool {
	ctx, cancel := context.WithTimeout(m.ctx, adoptTimeout)
	defer cancel()
	st, err := api.Call(ctx, s.Client, api.SupervisorStatusE, api.StatusRequest{}, nil)
	return err != nil || !st.Attached || st.Life != rec.Life
}

// settle removes what half-done operations on a ready box left.
func (m *Manager) settle(b *box) error {
	rec := b.record()
	names := rec.names(m.home)
	if b.live() != nil {
		// It runs: whatever was saved before is out of date.
		return errors.Join(m.disk.dropSaved(rec), m.disk.sweep(rec))
	}
	_, err := os.Stat(names.Resuming())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("what a resume left: %w", err)
	}
	if err == nil {
		// A resume was cut short, and the machine may have run on the disks since: its memory fits them no more.
		if err := os.RemoveAll(names.Resuming()); err != nil {
			return err
		}
		b.set(func(b *box) { b.rec.Box.Ended = &agentbox.End{Cause: agentbox.EndResumed} })
	}
	return m.disk.sweep(rec)
}

// dropOrphanRuns removes the socket directories of boxes that no longer exist.
func (m *Manager) dropOrphanRuns() error {
	entries, err := os.ReadDir(m.home.Run())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		id, err := agentbox.ParseBoxID(e.Name())
		if err != nil {
			continue
		}
		known := m.boxes.known(id)
		names := m.home.Box(id)
		// A box whose record we cannot read, of a later version say, is none of ours to end.
		if _, err := os.Lstat(names.Dir); !known && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, supervisors.KillHolder(names.Lock()), os.RemoveAll(names.Run))
		}
	}
	return errors.Join(errs...)
}
