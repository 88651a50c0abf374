package task

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// fakeSaver numbers its snapshots. early counts those that were dropped before their attempt had a result.
type fakeSaver struct {
	mu      sync.Mutex
	store   Store
	taken   int
	dropped []int
	early   int
	adopted int
}

func (s *fakeSaver) Save(context.Context, agentbox.Box, agentbox.Task) (agentbox.SavedWork, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
	return agentbox.SavedWork{Time: time.Now(), Snapshot: agentbox.Digest{byte(s.taken)}, Commits: s.taken}, nil
}

func (s *fakeSaver) Continue(_ context.Context, _ agentbox.Task, a agentbox.Attempt) (*agentbox.SourceRef, func(), error) {
	if a.Result == nil || a.Result.Ref == "" {
		return nil, func() {}, nil
	}
	return &agentbox.SourceRef{Directory: "of " + a.Result.Ref}, func() {}, nil
}

func (s *fakeSaver) Adopt(_ context.Context, _ agentbox.Task, a agentbox.Attempt, r *agentbox.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopted++
	r.Ref = "snapshot " + a.Saved.Snapshot.String()
	return nil
}

func (s *fakeSaver) Drop(_ context.Context, a agentbox.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = append(s.dropped, a.Saved.Commits)
	id, err := agentbox.ParseTaskID(strings.TrimSuffix(a.BoxName, "-"+strconv.Itoa(a.Number)))
	if err != nil || !s.store.finished(id, a.Number) {
		s.early++
	}
}

// saving is a queue that takes snapshots all the time.
func (h *fakeHost) saving(t *testing.T, s *fakeSaver, keep Snapshotter) *Queue {
	q, stop := h.serve(t, Store{Dir: t.TempDir()}, keep)
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	c := q.Config
	s.store = c.Store
	c.Saver, c.SaveEvery = s, time.Millisecond
	q = NewQueue(ctx, c)
	done := make(chan struct{})
	go func() { defer close(done); q.Run() }()
	t.Cleanup(func() { cancel(); <-done })
	return q
}

// awaitSaved waits for a task's first snapshot.
func awaitSaved(t *testing.T, q *Queue, id agentbox.TaskID) agentbox.Task {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		one, err := q.Store.Read(id)
		if err != nil {
			t.Fatal(err)
		}
		if last := one.Last(); last != nil && last.Saved != nil {
			return one
		}
	}
	t.Fatal("no snapshot was taken")
	return agentbox.Task{}
}

func TestSnapshotsWhileATaskRuns(t *testing.T) {
	h, s := newFakeHost(t), new(fakeSaver)
	q := h.saving(t, s, noChanges)
	one := submit(t, q, 0, "never")[0]
	awaitSaved(t, q, one.ID)
	if err := q.Cancel(one.ID); err != nil {
		t.Fatal(err)
	}
	got := wait(t, q, one.ID)
	if got.Last().Saved != nil || s.adopted != 0 || !slices.Contains(s.dropped, s.taken) {
		t.Errorf("the box was looked at last, and the snapshot stays: %+v, %+v", got.Last(), s)
	}
	// The box goes, and nobody can look into it.
	two := submit(t, q, 0, "never")[0]
	last := awaitSaved(t, q, two.ID).Last()
	if _, err := h.Remove(t.Context(), api.BoxRef{Box: last.BoxName}, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Signal(t.Context(), api.JobSignal{ID: last.Job}); err != nil {
		t.Fatal(err)
	}
	if got = wait(t, q, two.ID); got.State != agentbox.TaskLost || got.Last().Result.Ref == "" || s.adopted != 1 {
		t.Errorf("%+v", got.Last().Result)
	}
	// What was given back is its owner's.
	three := submit(t, q, 0, "never")[0]
	awaitSaved(t, q, three.ID)
	if err := q.Return(three.ID); err != nil {
		t.Fatal(err)
	}
	if got = wait(t, q, three.ID); got.Last().Saved != nil {
		t.Errorf("the snapshot of a task that was given back stays: %+v", got.Last())
	}
	if s.mu.Lock(); s.early > 0 {
		t.Errorf("%d snapshots were dropped before there was a result, for which a killed daemon needs them", s.early)
	}
	s.mu.Unlock()
}

// What is given back goes at once, and its work is nobody's here.
func TestReturn(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, fakeSnapshotter{kept: Kept{Ref: "work", Commit: "c"}})
	one := submit(t, q, 3, "never")[0]
	for deadline := time.Now().Add(5 * time.Minute); len(boxesOf(t, h)) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := q.Return(one.ID); err != nil {
		t.Fatal(err)
	}
	got := wait(t, q, one.ID)
	if !q.Returned(one.ID) || got.State != agentbox.TaskCancelled || len(got.Attempts) != 1 || got.Last().Result.Ref != "" || len(boxesOf(t, h)) != 0 {
		t.Errorf("%+v", got)
	}
}
