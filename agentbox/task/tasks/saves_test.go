package tasks

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/cachestore"
)

// savesIn keeps snapshots in a new home, each of another project, which put makes for a holder.
func savesIn(t *testing.T) (s Saves, put func(holder string) agentbox.Digest) {
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := cachestore.Open(t.Context(), cachestore.Config{Dir: t.TempDir(), Key: key, ReserveFile: -1, KeepFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	at := home.Home{Dir: t.TempDir()}
	s = Saves{Home: at, Log: slog.New(slog.DiscardHandler), Snapshots: sources.Snapshots{
		Snapshots: layers.Snapshots{Store: func(context.Context) (*cachestore.Store, error) { return store, nil }}, Boxes: work.Work{Home: at},
	}}
	return s, func(holder string) agentbox.Digest {
		t.Helper()
		d := snapshot.Document{Version: 1, Project: "of " + holder, Whole: strings.Repeat("a", 40), Holder: holder}
		if out, err := exec.Command("git", "init", "-q", "--bare", s.Snapshots.Mirror(d.Project)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		id, err := d.ID()
		if err == nil {
			_, _, err = s.Snapshots.Put(t.Context(), d, id, "work", func(_ context.Context, w io.Writer) error {
				_, err := io.WriteString(w, "pack of "+holder)
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
}

// recordTask writes a task with one attempt, which records a snapshot and may have a result.
func recordTask(t *testing.T, store task.Store, id agentbox.TaskID, saved agentbox.SavedWork, result *agentbox.Result) {
	t.Helper()
	for path, v := range map[string]any{
		filepath.Join(store.Dir, id.String(), "task.json"):  map[string]any{"version": 1, "id": id},
		filepath.Join(store.Attempt(id, 1), "attempt.json"): agentbox.Attempt{Number: 1},
		filepath.Join(store.Attempt(id, 1), "result.json"):  result,
		filepath.Join(store.Attempt(id, 1), task.SavedFile): saved,
	} {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What a daemon was killed with goes as soon as the next one begins, and nothing else.
func TestSweepSaves(t *testing.T) {
	s, put := savesIn(t)
	store := task.Store{Dir: t.TempDir()}
	began := time.Now().UTC()
	before := began.Add(-time.Minute)
	work, none := &agentbox.Result{State: agentbox.TaskLost, Ref: "refs/agentbox/tasks/x"}, &agentbox.Result{State: agentbox.TaskLost}
	for i, c := range []struct {
		name   string
		at     time.Time
		of     *agentbox.Result
		record time.Time // of the snapshot that is recorded; zero for no task
		stays  bool
	}{
		{"the task goes on from it", before, nil, before, true},
		{"it was taken, and not recorded", before, nil, before.Add(-time.Minute), false},
		{"the task is gone", before, nil, time.Time{}, false},
		{"it is recorded, and the work is the result's", before, work, before, false},
		{"it is all that is left of the attempt", before, none, before, true},
		{"this daemon has just taken it", began.Add(time.Second), nil, before, true},
	} {
		id := agentbox.TaskID{byte(i + 1)}
		of := put(holder(id, c.at))
		if !c.record.IsZero() {
			recordTask(t, store, id, agentbox.SavedWork{Time: c.record, Snapshot: of}, c.of)
		}
		if err := s.Sweep(t.Context(), store, began); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := s.Snapshots.Find(t.Context(), of.Hex()); c.stays != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	users := put("")
	if err := s.Sweep(t.Context(), store, began); err != nil {
		t.Error(err)
	}
	if _, err := s.Snapshots.Find(t.Context(), users.Hex()); err != nil {
		t.Errorf("the user's: %v", err)
	}
	// Only the pack and the refs of another one had come to the disk.
	half := snapshot.Document{Holder: holder(agentbox.TaskID{100}, before)}.Key(agentbox.Digest{1})
	mirror := s.Snapshots.Mirror("of ")
	git := func(script string) string {
		t.Helper()
		c := exec.Command("sh", "-ec", script, "x", half)
		c.Dir = mirror
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	git(`tree=$(git mktree </dev/null); for ref in snapshots/$1 branches/snapshots/$1/0 snapshots/other; do git update-ref refs/agentbox/$ref $tree; done`)
	open, err := s.Snapshots.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name, err := open.Lookup("snapshot", users.Hex()+"/work")
	if err != nil {
		t.Fatal(err)
	}
	name.Key = half + "/work"
	if _, err := open.Publish(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), store, began); err != nil {
		t.Error(err)
	}
	if _, err := open.Lookup("snapshot", half+"/work"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a pack of no snapshot stays: %v", err)
	}
	if refs := git(`git for-each-ref --format="%(refname)"`); refs != "refs/agentbox/snapshots/other\n" {
		t.Errorf("the mirror has %s", refs)
	}
}
