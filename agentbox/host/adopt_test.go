package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/tools/suites/supervisortest"
)

func TestAdoptFinishesInterruptedOperations(t *testing.T) {
	h := newHome(t)
	ready := newTestRecord("ready")
	ready.Life, ready.Workspace = 2, 3
	ready.Box.Checkpoint = []agentbox.Checkpoint{{ID: "c"}} // d is complete, but the daemon died before the record named it
	kept := write(t, h, ready)
	touch(t, kept.Dir+"/life-1/", kept.Dir+"/life-2/disk", kept.Dir+"/life-20/", kept.Dir+"/workspace-2/", kept.Dir+"/workspace-3/file",
		kept.Dir+"/staging/", kept.Dir+"/.tmp-1", kept.Dir+"/.saved.tmp-1/memory", kept.Dir+"/checkpoints/.c.tmp-1/memory", kept.Dir+"/setup.log", kept.Dir+"/checkpoints/c/", kept.Dir+"/checkpoints/d/")
	resuming := newTestRecord("resuming")
	lost := write(t, h, resuming)
	touch(t, lost.Resuming()+"/memory")
	paused := newTestRecord("paused")
	touch(t, write(t, h, paused).Saved()+"/memory")
	var gone []string
	for _, p := range []phase{phaseNew, phasePool, phaseRemoving} {
		rec := newTestRecord("box that is " + string(p))
		rec.Phase = p
		names := write(t, h, rec)
		gone = append(gone, names.Dir, names.Run)
	}
	unattached, orphan := h.Box(agentbox.NewBoxID()), h.Box(agentbox.NewBoxID())
	removed := h.Box(agentbox.NewBoxID()).Dir + ".removed"
	touch(t, unattached.Dir+"/life-1/", unattached.Run+"/", orphan.Run+"/ssh.sock", removed+"/workspace-1/", h.Templates()+"/.build-1/")
	gone = append(gone, unattached.Dir, unattached.Run, orphan.Run, removed, h.Templates()+"/.build-1",
		kept.Dir+"/life-1", kept.Dir+"/life-20", kept.Dir+"/workspace-2", kept.Dir+"/staging", kept.Dir+"/.tmp-1", kept.Dir+"/.saved.tmp-1", kept.Dir+"/checkpoints/.c.tmp-1", kept.Dir+"/checkpoints/d", lost.Resuming())
	stays := []string{h.Boxes() + "/stranger/file", h.Boxes() + "/notes.txt", h.Run() + "/stranger/"}
	touch(t, stays...)
	stays = append(stays, kept.Record(), kept.Dir+"/life-2/disk", kept.Dir+"/workspace-3/file", kept.Dir+"/setup.log", kept.Dir+"/checkpoints/c")

	m := manage(t, h)
	for _, path := range gone {
		if exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stays {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	boxes, err := m.List(t.Context(), api.ListRequest{}, nil)
	if err != nil || len(boxes) != 3 {
		t.Fatalf("%+v, %v", boxes, err)
	}
	for name, want := range map[string]agentbox.State{"ready": agentbox.Stopped, "resuming": agentbox.Stopped, "paused": agentbox.Paused} {
		b, err := m.Show(t.Context(), api.BoxRef{Box: name}, nil)
		if err != nil || b.State != want || (b.Ended != nil) != (name == "resuming") {
			t.Errorf("%s: %s, ended %v, %v", name, b.State, b.Ended, err)
		}
	}
}

// Only a saved machine that does not exist is none: whatever else is wrong with it, the box does
// not begin afresh.
func TestAdoptKeepsUnreadableSave(t *testing.T) {
	h := newHome(t)
	paused, resuming := newTestRecord("paused"), newTestRecord("resuming")
	saved, half := write(t, h, paused).Saved(), write(t, h, resuming).Resuming()
	for _, path := range []string{saved, half} {
		if err := os.Symlink(path, path); err != nil { // root may read anything else
			t.Fatal(err)
		}
	}
	m := manage(t, h)
	b, err := m.Show(t.Context(), api.BoxRef{Box: "paused"}, nil)
	if err != nil || b.State != agentbox.Paused {
		t.Errorf("%s, %v", b.State, err)
	}
	_, err = m.Resume(t.Context(), api.BoxRef{Box: "paused"}, nil)
	if e := agentbox.AsError(err); err == nil || e.Hint == "" || !strings.Contains(e.Message, saved) {
		t.Errorf("resume: %v", err)
	}
	for _, path := range []string{saved, half} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if now, err := readRecord(h.Box(paused.Box.ID).Record()); err != nil || now.Life != paused.Life {
		t.Errorf("it began life %d after %d, %v", now.Life, paused.Life, err)
	}
}

func TestAdoptKeepsUnreadableRecord(t *testing.T) {
	for name, text := range map[string]string{"corrupt": `{"version":1,"box`, "of a later version": `{"version":99}`} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			names := write(t, h, newTestRecord("mine"))
			if err := os.WriteFile(names.Record(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			touch(t, names.Dir+"/workspace-1/file")
			_, _, ended := supervisortest.Hold(t, names.Lock(), supervisortest.Itself)
			m := manage(t, h)
			select {
			case <-ended:
				t.Error("its supervisor was killed")
			default:
			}
			if boxes, _, _ := m.Count(); boxes != 0 || !exists(names.Dir+"/workspace-1/file") || !exists(names.Lock()) {
				t.Errorf("%d boxes, workspace %v, lock %v", boxes, exists(names.Dir+"/workspace-1/file"), exists(names.Lock()))
			}
		})
	}
}

// A supervisor that does not answer cannot be adopted; the box is stopped and keeps its workspace.
func TestAdoptKillsSilentSupervisor(t *testing.T) {
	h := newHome(t)
	rec := newTestRecord("mine")
	names := write(t, h, rec)
	_, _, ended := supervisortest.Hold(t, names.Lock(), supervisortest.Itself)
	half := newTestRecord("half")
	half.Phase = phaseNew
	_, _, halfEnded := supervisortest.Hold(t, write(t, h, half).Lock(), supervisortest.Itself)
	orphan := h.Box(agentbox.NewBoxID())
	touch(t, orphan.Run+"/")
	_, _, orphanEnded := supervisortest.Hold(t, orphan.Lock(), supervisortest.Itself)
	m := manage(t, h)
	supervisortest.Within(t, "a silent supervisor", ended)
	supervisortest.Within(t, "the supervisor of a half-made box", halfEnded)
	supervisortest.Within(t, "the supervisor of no box", orphanEnded)
	b, err := m.Show(t.Context(), api.BoxRef{Box: "mine"}, nil)
	if err != nil || b.State != agentbox.Stopped || !exists(names.Dir) {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestRemoveDeletesEverything(t *testing.T) {
	h := newHome(t)
	names := write(t, h, newTestRecord("mine"))
	touch(t, names.Dir+"/workspace-1/a/b", names.Saved()+"/memory", names.Checkpoints()+"/c/memory")
	m := manage(t, h)
	if _, err := m.Remove(t.Context(), api.BoxRef{Box: "mine"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{h.Boxes(), h.Run()} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s has %v, %v", filepath.Base(dir), left, err)
		}
	}
	if _, err := m.Remove(t.Context(), api.BoxRef{Box: "mine"}, nil); agentbox.CodeOf(err) != agentbox.NotFound || !strings.Contains(err.Error(), "mine") {
		t.Errorf("again: %v", err)
	}
}

// A limit pauses a box whether a daemon runs or not; whoever looks later is told, and so is the
// daemon after that.
func TestAdoptRecordsPastExit(t *testing.T) {
	h := newHome(t)
	names := write(t, h, newTestRecord("idle"))
	touch(t, names.Saved()+"/memory")
	end := agentbox.End{Cause: agentbox.EndLimit, Limit: agentbox.Limit{Kind: agentbox.LimitIdle, Time: 15 * time.Minute}}
	b, err := json.Marshal(supervisor.Exit{End: end})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(names.Dir, "exit.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m := manage(t, h)
		shown, err := m.Show(t.Context(), api.BoxRef{Box: "idle"}, nil)
		if err != nil || shown.State != agentbox.Paused || shown.Limited() != end.Limit {
			t.Errorf("%s, %v, %v", shown.State, shown.Ended, err)
		}
		if rec, err := readRecord(names.Record()); err != nil || rec.Box.Ended == nil || *rec.Box.Ended != end {
			t.Errorf("the record says %v, %v", rec.Box.Ended, err)
		}
	}
}

// What a killed daemon was writing outside of boxes goes; what it had written stays.
func TestNextDaemonRemovesWhatWasBeingWritten(t *testing.T) {
	h := newHome(t)
	mirror, sessions := h.Mirror("p"), h.Sessions("p", "agent")
	left := []string{
		filepath.Join(mirror, "incoming-1/pack/tmp_pack_1"), filepath.Join(mirror, "incoming-2/tree/"), filepath.Join(mirror, "objects/pack/tmp_pack_1"),
		filepath.Join(h.Mirrors(), ".new-1/HEAD"), filepath.Join(sessions, ".tmp-box-1"), filepath.Join(sessions, ".tmp-kept-1"), filepath.Join(h.State(), emptyPrefix+"1/"),
	}
	kept := []string{filepath.Join(mirror, "HEAD"), filepath.Join(mirror, "objects/pack/pack-1.pack"), filepath.Join(sessions, "kept.tar"), filepath.Join(h.State(), "kvm.json")}
	touch(t, append(left, kept...)...)
	manage(t, h)
	for _, path := range left {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
	if exists(filepath.Join(mirror, "incoming-1")) || exists(filepath.Join(h.Mirrors(), ".new-1")) {
		t.Error("a directory is left")
	}
	for _, path := range kept {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}
