package task

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"agentbox/agentbox"
)

// manyTasks is a store with so many tasks that wait, the first of which are for this machine.
func manyTasks(t testing.TB, n, here int) Store {
	t.Helper()
	s := Store{Dir: t.TempDir(), Memory: &Memory{}}
	for i := range n {
		rec := record{Version: version, ID: agentbox.NewTaskID(), Need: Need{CPUs: 2, Memory: 4 << 30}, Created: time.Unix(int64(i), 0)}
		rec.Command, rec.Batch, rec.Source = []string{"./agent.sh", "issue " + strconv.Itoa(i)}, rec.ID, &agentbox.SourceRef{}
		if i >= here {
			rec.Where = "idle"
		}
		text, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(s.task(rec.ID), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.task(rec.ID), recordFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// nowhere has no room for anything.
type nowhere struct {
	Remote
	asked int
}

func (n *nowhere) Room(agentbox.Task, Need, int) int { n.asked++; return 0 }

// Of thousands of tasks that wait, none is read again, and room is looked for once for all that are alike.
func TestManyTasksWait(t *testing.T) {
	store := manyTasks(t, 300, 100)
	asked := 0
	elsewhere := &nowhere{}
	q := NewQueue(t.Context(), Config{Store: store, Remote: elsewhere, HasRoom: func([]Need, Need) bool { asked++; return false }})
	q.running[agentbox.NewTaskID()] = record{} // one runs, so that there is need for room
	q.scan()
	all := q.Open()
	for _, one := range all {
		if err := os.Rename(filepath.Join(store.task(one.ID), recordFile), filepath.Join(store.task(one.ID), "away")); err != nil {
			t.Fatal(err)
		}
	}
	if !q.scan() || len(q.Open()) != 300 || asked != 2 || elsewhere.asked != 2 || len(q.running) != 1 {
		t.Errorf("%d wait, %d and %d questions, %d run", len(q.Open()), asked, elsewhere.asked, len(q.running))
	}
	for _, one := range all {
		if err := os.Rename(filepath.Join(store.task(one.ID), "away"), filepath.Join(store.task(one.ID), recordFile)); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Cancel(all[0].ID); err != nil {
		t.Fatal(err)
	}
	if q.scan(); len(q.Open()) != 299 {
		t.Errorf("of 300 tasks %d wait still when one is cancelled", len(q.Open()))
	}
}

// BenchmarkScan is one look at ten thousand tasks that wait, half of them for other machines.
func BenchmarkScan(b *testing.B) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q := NewQueue(ctx, Config{Store: manyTasks(b, 10000, 5000), Remote: &nowhere{}, HasRoom: func([]Need, Need) bool { return false }})
	q.running[agentbox.NewTaskID()] = record{}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(q.Store.Dir, long, long); err != nil {
		b.Fatal(err)
	}
	q.scan()
	for b.Loop() {
		q.scan()
	}
}

// bounded has room for three that wait.
type bounded struct{ begun chan agentbox.TaskID }

func (b bounded) Room(_ agentbox.Task, _ Need, begun int) int { return 3 - begun }

func (b bounded) Run(ctx context.Context, t agentbox.Task, _ agentbox.Attempt, _ Need, _ string, _ <-chan struct{}) (agentbox.Result, error) {
	b.begun <- t.ID
	<-ctx.Done()
	return agentbox.Result{}, ctx.Err()
}

// No more attempts wait elsewhere than there is room for, however often the queue looks; after a restart,
// either.
func TestOthersHaveRoom(t *testing.T) {
	store := manyTasks(t, 20, 0)
	first := map[agentbox.TaskID]bool{}
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		remote := bounded{make(chan agentbox.TaskID, 20)}
		q := NewQueue(ctx, Config{Store: Store{Dir: store.Dir, Memory: &Memory{}}, Remote: remote, Log: slog.New(slog.DiscardHandler)})
		for range 5 {
			q.scan()
		}
		for range 3 {
			first[<-remote.begun] = true
		}
		stop()
		q.work.Close()
		if len(first) != 3 || len(remote.begun) > 0 {
			t.Errorf("%d have begun, and %d more", len(first), len(remote.begun))
		}
	}
}

// A task that waits elsewhere is read again only when a file of its attempt was replaced.
func TestWaitingElsewhereIsRemembered(t *testing.T) {
	store := manyTasks(t, 1, 0)
	all, bad := store.List()
	if len(all) != 1 || len(bad) > 0 {
		t.Fatal(all, bad)
	}
	id := all[0].ID
	if err := write(filepath.Join(store.Attempt(id, 1), attemptFile), agentbox.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	store.Memory.forget(id)
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(store.Attempt(id, 1), long, long); err != nil {
		t.Fatal(err)
	}
	first, _ := store.list(nil)
	if again, _ := store.list(nil); len(first) != 1 || len(again) != 1 || first[0] != again[0] || first[0].State != agentbox.TaskQueued {
		t.Errorf("%v is read again: %v", first, again)
	}
	if err := write(filepath.Join(store.Attempt(id, 1), leaseFile), map[string]string{"name": "bob", "worker": "b"}); err != nil {
		t.Fatal(err)
	}
	if all, _ := store.List(); len(all) != 1 || all[0].State != agentbox.TaskRunning || all[0].Last().Worker != "bob" {
		t.Errorf("a machine has it, and it is %+v", all)
	}
}
