package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/job"
)

// fakeHost is a machine whose boxes are directories, and whose jobs end when their files say so. It
// outlives queues.
type fakeHost struct {
	dir  string
	ends sync.WaitGroup // jobs that have not ended; the test waits for them

	mu       sync.Mutex
	boxes    map[string]agentbox.Box
	started  map[agentbox.JobID]int
	ended    map[agentbox.JobID]chan struct{} // closed when a job ends
	removed  map[string]int
	envs     map[string][]string // by name of a box
	maxBoxes int
	onRemove func() // called before a box is removed; nil for nothing
}

func newFakeHost(t *testing.T) *fakeHost {
	h := &fakeHost{dir: t.TempDir(), boxes: map[string]agentbox.Box{}, started: map[agentbox.JobID]int{}, ended: map[agentbox.JobID]chan struct{}{}, removed: map[string]int{}, envs: map[string][]string{}}
	t.Cleanup(h.ends.Wait)
	return h
}

var errGone = agentbox.Errorf(agentbox.NotFound, "no such box")

func (h *fakeHost) Up(_ context.Context, req api.UpRequest, _ agentbox.Progress) (api.UpResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.boxes[req.Name]; there || !req.Task {
		return api.UpResponse{}, errors.New("a box that is there was made again, or for no task")
	}
	b := agentbox.Box{ID: agentbox.NewBoxID(), Name: req.Name, State: agentbox.Running}
	h.boxes[req.Name], h.envs[req.Name] = b, req.Environ
	h.maxBoxes = max(h.maxBoxes, len(h.boxes))
	return api.UpResponse{Box: b}, nil
}

func (h *fakeHost) environ(box string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.envs[box]
}

func (h *fakeHost) Find(_ context.Context, ref api.BoxRef) (agentbox.Box, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.boxes {
		if b.Name == ref.Box || b.ID.String() == ref.Box {
			return b, nil
		}
	}
	return agentbox.Box{}, errGone
}

func (h *fakeHost) List(context.Context, api.ListRequest, agentbox.Progress) ([]agentbox.Box, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []agentbox.Box
	for _, b := range h.boxes {
		all = append(all, b)
	}
	return all, nil
}

func (h *fakeHost) LiftLimits(context.Context, api.BoxRef) error { return nil }
func (h *fakeHost) Stop(context.Context, api.BoxRef) error       { return nil }

func (h *fakeHost) Remove(ctx context.Context, ref api.BoxRef, _ agentbox.Progress) (agentbox.Box, error) {
	b, err := h.Find(ctx, ref)
	if h.onRemove != nil {
		h.onRemove()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.boxes, b.Name)
	h.removed[b.Name]++
	return b, err
}

func (h *fakeHost) Start(ctx context.Context, req api.JobStart) (api.JobStarted, error) {
	if req.Spec.Argv[0] == "unready" {
		<-ctx.Done()
		return api.JobStarted{}, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[req.Spec.ID]++
	h.ended[req.Spec.ID] = make(chan struct{})
	dir := job.Dir(h.dir, req.Spec.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return api.JobStarted{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "job.json"), []byte(`{"version":1}`), 0o600); err != nil {
		return api.JobStarted{}, err
	}
	h.ends.Add(1)
	time.AfterFunc(50*time.Millisecond, func() { defer h.ends.Done(); h.end(req.Spec.ID, req.Spec.Argv[0]) })
	return api.JobStarted{ID: req.Spec.ID}, nil
}

func (h *fakeHost) starts(id agentbox.JobID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started[id]
}

// end ends a job as its command says: a status, or "lost".
func (h *fakeHost) end(id agentbox.JobID, how string) {
	end := fmt.Sprintf(`{"status":%s}`, how)
	if how == "lost" {
		end = `{"lost":true}`
	}
	if how != "never" {
		_ = durable.Replace(filepath.Join(job.Dir(h.dir, id), job.EndFile), []byte(end), 0o600)
		h.mu.Lock()
		defer h.mu.Unlock()
		if ended := h.ended[id]; ended != nil {
			close(ended)
			h.ended[id] = nil
		}
	}
}

func (h *fakeHost) AwaitEnd(ctx context.Context, _ string, id agentbox.JobID) error {
	h.mu.Lock()
	ended := h.ended[id]
	h.mu.Unlock()
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *fakeHost) Show(ctx context.Context, box string, id agentbox.JobID) (JobFiles, error) {
	b, err := h.Find(ctx, api.BoxRef{Box: box})
	if err != nil {
		return JobFiles{}, err
	}
	j, err := job.Read(h.dir, id, b)
	if err != nil {
		return JobFiles{}, agentbox.Errorf(agentbox.NotFound, "no job")
	}
	return JobFiles{Job: j, Dir: job.Dir(h.dir, id)}, nil
}

func (h *fakeHost) Signal(_ context.Context, req api.JobSignal) error {
	h.end(req.ID, "143")
	return nil
}

type fakeSnapshotter struct {
	kept Kept
	err  error
}

func (k fakeSnapshotter) Keep(context.Context, agentbox.Box, agentbox.Task) (Kept, error) {
	return k.kept, k.err
}

// noChanges is kept of a box in which nothing was done.
var noChanges = fakeSnapshotter{kept: Kept{Nothing: true}}

// serve runs a queue until the test ends or stop is called.
func (h *fakeHost) serve(t *testing.T, store Store, snapshotter Snapshotter) (q *Queue, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	q = NewQueue(ctx, Config{
		Store: store, Boxes: h, Jobs: h, Snapshotter: snapshotter, Log: slog.New(slog.DiscardHandler),
		HasRoom: func(running []Need, _ Need) bool { return len(running) < 3 },
	})
	done := make(chan struct{})
	go func() { defer close(done); q.Run() }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return q, stop
}

func submit(t *testing.T, q *Queue, retries int, statuses ...string) []agentbox.Task {
	t.Helper()
	var s Submission
	for _, status := range statuses {
		s.Specs = append(s.Specs, agentbox.TaskSpec{Command: []string{status}, Retries: retries})
	}
	all, err := q.Submit(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wait(t *testing.T, q *Queue, id agentbox.TaskID) agentbox.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	got, err := q.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
