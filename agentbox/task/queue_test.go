package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/artifact"
)

func TestTaskResult(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	for status, want := range map[string]agentbox.TaskState{"0": agentbox.TaskSucceeded, "3": agentbox.TaskFailed, "lost": agentbox.TaskLost} {
		got := wait(t, q, submit(t, q, 0, status)[0].ID)
		if got.State != want || len(got.Attempts) != 1 || (status == "lost") != (got.Last().Result.Exit == nil) {
			t.Errorf("%s: %+v", status, got)
		}
	}
}

// TestWaitReturnsWhenTheBoxIsGone makes a removal take longer than Wait takes to see the result.
func TestWaitReturnsWhenTheBoxIsGone(t *testing.T) {
	h := newFakeHost(t)
	h.onRemove = func() { time.Sleep(10 * removalEvery) }
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	wait(t, q, submit(t, q, 0, "0")[0].ID)
	if boxes, _ := h.List(t.Context(), api.ListRequest{}, nil); len(boxes) != 0 {
		t.Errorf("%d boxes are there when the task is over", len(boxes))
	}
}

func TestTasksEndOnceAcrossRestarts(t *testing.T) {
	h, store := newFakeHost(t), Store{Dir: t.TempDir()}
	q, stop := h.serve(t, store, noChanges)
	all := submit(t, q, 0, "0", "1", "0", "2", "0", "0", "lost", "0")
	for range 6 { // the daemon is killed again and again
		time.Sleep(30 * time.Millisecond)
		stop()
		q, stop = h.serve(t, store, noChanges)
	}
	for _, one := range all {
		if got := wait(t, q, one.ID); len(got.Attempts) != 1 || h.starts(got.Last().Job) != 1 {
			t.Errorf("%s: %d attempts, job started %d times", got.ID, len(got.Attempts), h.starts(got.Last().Job))
		}
	}
	stop()
	_, stop = h.serve(t, store, noChanges) // a last one clears away
	time.Sleep(50 * time.Millisecond)
	stop()
	if boxes, _ := h.List(t.Context(), api.ListRequest{}, nil); len(boxes) != 0 || h.maxBoxes > 3 {
		t.Errorf("%d boxes are left, %d were there at once", len(boxes), h.maxBoxes)
	}
}

func TestRetryAddsAttempt(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	if got := wait(t, q, submit(t, q, 2, "5")[0].ID); len(got.Attempts) != 3 || got.State != agentbox.TaskFailed {
		t.Errorf("%+v", got)
	}
	if got := wait(t, q, submit(t, q, 2, "0")[0].ID); len(got.Attempts) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCancelledTaskEnds(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	all := submit(t, q, 5, "never", "never", "never", "never")
	time.Sleep(100 * time.Millisecond) // three run, one is queued
	for _, one := range all {
		if err := q.Cancel(one.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range all {
		if got := wait(t, q, one.ID); got.State != agentbox.TaskCancelled || len(got.Attempts) > 1 {
			t.Errorf("%+v", got)
		}
	}
}

// A box may never be ready to run anything: it is in nobody's way when the task is cancelled.
func TestCancelBeforeBegin(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	one := submit(t, q, 5, "unready")[0]
	for deadline := time.Now().Add(5 * time.Minute); len(boxesOf(t, h)) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := q.Cancel(one.ID); err != nil {
		t.Fatal(err)
	}
	got := wait(t, q, one.ID)
	if got.State != agentbox.TaskCancelled || len(got.Attempts) != 1 {
		t.Errorf("%+v", got)
	}
	waitGone(t, h, got.Last().BoxName, false)
}

func boxesOf(t *testing.T, h *fakeHost) []agentbox.Box {
	t.Helper()
	all, err := h.List(t.Context(), api.ListRequest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestUnkeptWorkKeepsBox(t *testing.T) {
	for _, test := range []struct {
		snapshotter Snapshotter
		stays       bool
	}{
		{fakeSnapshotter{err: errors.New("no room")}, true},
		{fakeSnapshotter{kept: Kept{Ref: "refs/kept", Files: 2, Missing: []string{"inner"}}}, true},
		{fakeSnapshotter{kept: Kept{Ref: "refs/kept", Files: 2}}, false},
		{fakeSnapshotter{kept: Kept{Ref: "refs/kept", Files: 2, Unexported: "the checkout is gone"}}, false},
	} {
		h := newFakeHost(t)
		q, stop := h.serve(t, Store{Dir: t.TempDir()}, test.snapshotter)
		got := wait(t, q, submit(t, q, 0, "0")[0].ID)
		waitGone(t, h, got.Last().BoxName, test.stays)
		stop()
		r := got.Last().Result
		if _, there := h.boxes[got.Last().BoxName]; there != test.stays || (r.Box != "") != test.stays || !test.stays && r.Files != 2 {
			t.Errorf("%+v: box there %v, %+v", test.snapshotter, there, r)
		}
	}
}

// waitGone waits until a box that does not stay is removed, which is after its task's end.
func waitGone(t *testing.T, h *fakeHost, name string, stays bool) {
	t.Helper()
	for !stays {
		if _, err := h.Find(t.Context(), api.BoxRef{Box: name}); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestHeldTask(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	begin := func(status string) agentbox.Task {
		t.Helper()
		got, err := q.Begin(t.Context(), Submission{Specs: []agentbox.TaskSpec{{Command: []string{status}}}}, []string{"A=B"}, nil)
		if err != nil || got.Last() == nil || h.starts(got.Last().Job) != 1 {
			t.Fatalf("%+v %v", got, err)
		}
		return got
	}
	if got, err := q.Hold(t.Context(), begin("3").ID); err != nil || got.State != agentbox.TaskFailed || got.Last().Result == nil {
		t.Errorf("%+v %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	abandoned, released, limited := begin("never"), begin("never"), begin("never")
	if err := q.Release(released.ID); err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, one := range []agentbox.Task{abandoned, released} {
		if _, err := q.Hold(ctx, one.ID); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if got := wait(t, q, abandoned.ID); got.State != agentbox.TaskCancelled {
		t.Errorf("abandoned: %s", got.State)
	}
	if got, err := q.Store.Read(released.ID); err != nil || got.State != agentbox.TaskRunning {
		t.Errorf("released: %s %v", got.State, err)
	}
	if err := q.End(limited.ID, agentbox.Limit{Kind: agentbox.LimitWall, Time: time.Second}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, q, limited.ID); got.State != agentbox.TaskLimited || got.Last().Result.Reason != "wall 1s" || got.Last().Result.Exit != nil {
		t.Errorf("%+v", got)
	}
	if _, err := q.Begin(ctx, Submission{Specs: []agentbox.TaskSpec{{Command: []string{"0"}}}}, nil, nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A program that is killed between the two calls never held its task, and no other event comes.
func TestTaskWhoseHolderNeverCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost(t)
		q, stop := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
		defer stop()
		synctest.Wait() // the queue has found nothing to do
		begun, err := q.Begin(t.Context(), Submission{Specs: []agentbox.TaskSpec{{Command: []string{"never"}}}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := wait(t, q, begun.ID); got.State != agentbox.TaskCancelled {
			t.Error(got.State)
		}
	})
}

// The queue, when it looks for tasks at that moment, must not begin one without what only its
// holder has.
func TestHeldTaskEnvironment(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	looking, stop := context.WithCancel(t.Context())
	var looks sync.WaitGroup
	defer looks.Wait()
	defer stop()
	looks.Go(func() {
		for looking.Err() == nil {
			select {
			case q.wake <- struct{}{}:
			case <-looking.Done():
			}
		}
	})
	var holders sync.WaitGroup
	for range 8 {
		holders.Go(func() {
			for range 30 {
				got, err := q.Begin(t.Context(), Submission{Specs: []agentbox.TaskSpec{{Command: []string{"0"}}}}, []string{"A=B"}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if env := h.environ(got.Last().BoxName); !slices.Equal(env, []string{"A=B"}) {
					t.Errorf("its box was made with %q", env)
				}
			}
		})
	}
	holders.Wait()
}

// A box that outgrows its disk is paused, with its job: its task has ended.
func TestTaskPausedAtLimitEnds(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	id := submit(t, q, 0, "never")[0].ID
	for paused := false; !paused; time.Sleep(time.Millisecond) {
		one, err := q.Store.Read(id)
		if err != nil {
			t.Fatal(err)
		}
		if one.Last() == nil || h.starts(one.Last().Job) == 0 {
			continue
		}
		h.mu.Lock()
		b := h.boxes[one.Last().BoxName]
		b.State, b.Ended = agentbox.Paused, &agentbox.End{Cause: agentbox.EndLimit, Limit: agentbox.Limit{Kind: agentbox.LimitDisk, Count: 1 << 20}}
		h.boxes[b.Name], paused = b, true
		close(h.ended[one.Last().Job]) // its supervisor ends
		h.ended[one.Last().Job] = nil
		h.mu.Unlock()
	}
	if got := wait(t, q, id); got.State != agentbox.TaskLimited || got.Last().Result.Reason != "disk 1 MiB" {
		t.Errorf("%+v", got.Last().Result)
	}
}

// What prune may take: a month old, done, and nothing of it anywhere.
func TestExpired(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	q := NewQueue(t.Context(), Config{Store: store})
	old, now := time.Now().Add(-evidenceRetention-time.Hour), time.Now()
	ended := func(at time.Time, change func(*agentbox.Result)) *agentbox.Result {
		r := &agentbox.Result{State: agentbox.TaskSucceeded, Ended: at}
		if change != nil {
			change(r)
		}
		return r
	}
	cases := map[string]struct {
		result *agentbox.Result
		spent  bool
	}{
		"old":                {ended(old, nil), true},
		"new":                {ended(now, nil), false},
		"running":            {nil, false},
		"has a ref":          {ended(old, func(r *agentbox.Result) { r.Ref = "refs/agentbox/tasks/x" }), false},
		"has a box":          {ended(old, func(r *agentbox.Result) { r.Box = "b" }), false},
		"has changed files":  {ended(old, func(r *agentbox.Result) { r.Files = 1 }), false},
		"has kept artifacts": {ended(old, func(r *agentbox.Result) { r.Artifacts = 1 }), false},
	}
	names, done := map[agentbox.TaskID]string{}, map[agentbox.TaskID]bool{}
	for name, c := range cases {
		one := submit(t, q, 0, "0")[0]
		names[one.ID] = name
		if err := write(filepath.Join(store.Attempt(one.ID, 1), attemptFile), agentbox.Attempt{Number: 1, Started: old}); err != nil {
			t.Fatal(err)
		}
		if c.result != nil {
			if err := store.finish(one.ID, 1, *c.result); err != nil {
				t.Fatal(err)
			}
		}
	}
	expired := map[string]bool{}
	for _, one := range q.Expired() {
		expired[names[one.ID]] = true
	}
	for name, c := range cases {
		if expired[name] != c.spent {
			t.Errorf("%s: %v", name, expired[name])
		}
	}
	for range 2 { // the second time the others are not read
		if open, bad := store.unfinished(done, func(agentbox.Task) {}); len(open) != 1 || names[open[0].ID] != "running" || len(bad) > 0 || len(done) != len(cases)-1 {
			t.Errorf("%+v, %v, %d done", open, bad, len(done))
		}
	}
}

type fakeCollector struct {
	got artifact.Collected
	err error
}

func (c fakeCollector) Collect(context.Context, agentbox.Box, agentbox.Task, Kept, string) (artifact.Collected, error) {
	return c.got, c.err
}

type fakeEvidence struct{ Evidence }

func (w fakeEvidence) Gather(context.Context, agentbox.Box, string) (Evidence, error) {
	return w.Evidence, errors.New("not all is known")
}

// A box has files that could not be taken: it stays, stopped, and the result names it.
func TestUncollectedArtifactsKeepBox(t *testing.T) {
	for what, c := range map[string]struct {
		fakeCollector
		stays bool
	}{
		"all taken": {fakeCollector{got: artifact.Collected{Files: make([]artifact.File, 2), Notes: []string{"a link is left out"}}}, false}, "some left": {fakeCollector{got: artifact.Collected{Files: make([]artifact.File, 2), Lost: 1}}, true},
		"none": {fakeCollector{err: errors.New("the box does not answer")}, true},
	} {
		h := newFakeHost(t)
		q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
		q.Collector = c.fakeCollector
		all, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{{Command: []string{"0"}, Artifacts: []string{"out"}}}})
		if err != nil {
			t.Fatal(err)
		}
		got := wait(t, q, all[0].ID).Last()
		if (got.Result.Box == got.BoxName) != c.stays || got.Result.Uncollected != c.stays || got.Result.Artifacts != len(c.got.Files) {
			t.Errorf("%s: %+v", what, got.Result)
		}
		if !c.stays {
			continue
		}
		if _, err := h.Find(t.Context(), api.BoxRef{Box: got.BoxName}); err != nil {
			t.Errorf("%s: its box: %v", what, err)
		}
	}
}

func TestResultEvidence(t *testing.T) {
	h := newFakeHost(t)
	q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
	q.Evidence = fakeEvidence{Evidence{Used: &agentbox.Consumption{CPU: time.Second}, Denied: []agentbox.Denial{{What: "GET x"}}, Services: []string{"web"}}}
	got := wait(t, q, submit(t, q, 0, "0")[0].ID).Last().Result
	if got.Used == nil || got.Used.CPU != time.Second || len(got.Denied) != 1 || len(got.Services) != 1 {
		t.Errorf("%+v", got)
	}
}

// An agent that was denied a host of its own fails by the policy, whatever it says itself; one that
// was denied another host, or succeeded, does not.
func TestPolicyIsCause(t *testing.T) {
	for _, c := range []struct {
		exit, denied string
		cause        string
	}{
		{"1", "api.example.com", agentbox.CausePolicy}, {"1", "eu.models.example", agentbox.CausePolicy},
		{"1", "models.example", ""}, {"1", "telemetry.example.com", ""}, {"0", "api.example.com", ""},
	} {
		h := newFakeHost(t)
		q, _ := h.serve(t, Store{Dir: t.TempDir()}, noChanges)
		q.Evidence = fakeEvidence{Evidence{Denied: []agentbox.Denial{{What: "dns x", Host: c.denied, Reason: "a rule"}}}}
		spec := agentbox.TaskSpec{Command: []string{c.exit}, Agent: "ours", AgentHosts: []string{"api.example.com", "*.models.example"}}
		all, err := q.Submit(Submission{Specs: []agentbox.TaskSpec{spec}})
		if err != nil {
			t.Fatal(err)
		}
		got := wait(t, q, all[0].ID).Last().Result
		if got.Cause != c.cause || strings.Contains(got.Reason, "the policy denied "+c.denied) != (c.cause != "") {
			t.Errorf("%+v: cause %q, %q", c, got.Cause, got.Reason)
		}
	}
}

// A task that is removed is removed for the queue at once: half of its files are those of a task
// that never ran, which would be run again.
func TestRemoveIsAtomic(t *testing.T) {
	h := newFakeHost(t)
	// A tmpfs, where there is one, removes first what was made last.
	dir, err := os.MkdirTemp("/dev/shm", "tasks")
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	store := Store{Dir: dir}
	q, _ := h.serve(t, store, noChanges)
	id := submit(t, q, 0, "0")[0].ID
	wait(t, q, id)
	for n := range 5000 { // so that it takes a while
		if err := os.WriteFile(filepath.Join(store.Attempt(id, 1), fmt.Sprint("evidence-", n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed := make(chan error, 1)
	go func() { removed <- q.Remove(id) }()
	for {
		got, err := store.Read(id)
		if agentbox.CodeOf(err) == agentbox.NotFound {
			break
		}
		if err != nil || got.State != agentbox.TaskSucceeded {
			t.Fatalf("while it was removed: %s, %v", got.State, err)
		}
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(store.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A daemon that was killed while it removed a task leaves files that the next one removes.
func TestSweepFinishesRemoval(t *testing.T) {
	h := newFakeHost(t)
	store := Store{Dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(store.Dir, removedPrefix+"t-01234567", "attempts"), 0o700); err != nil {
		t.Fatal(err)
	}
	q, _ := h.serve(t, store, noChanges)
	wait(t, q, submit(t, q, 0, "0")[0].ID)
	if left, err := os.ReadDir(store.Dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Progress is written into an answer that ends when Begin returns.
func TestNoProgressAfterSetProgressNil(t *testing.T) {
	w := &watch{}
	telling := make(chan struct{})
	var told atomic.Bool
	w.setProgress(func(agentbox.Event) {
		close(telling)
		for range 10_000 { // setProgress has all the time to return too early
			runtime.Gosched()
		}
		told.Store(true)
	})
	go w.report(agentbox.Event{})
	<-telling
	w.setProgress(nil)
	if !told.Load() {
		t.Error("it returned while progress was told")
	}
}

// A holder of a task that cannot begin is told why.
func TestBeginError(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	q := NewQueue(t.Context(), Config{Store: store, Log: slog.New(slog.DiscardHandler)})
	all, err := q.write(Submission{Specs: []agentbox.TaskSpec{{Command: []string{"0"}}}}, agentbox.NewTaskID())
	if err != nil {
		t.Fatal(err)
	}
	id := all[0].ID
	if err := os.WriteFile(filepath.Join(store.task(id), "attempts"), nil, 0o600); err != nil { // a file where a directory goes
		t.Fatal(err)
	}
	rec, err := store.record(id)
	if err != nil {
		t.Fatal(err)
	}
	q.runAttempt(t.Context(), rec)
	select {
	case <-q.watch(id).begun:
		if q.watch(id).err == nil {
			t.Error("it says that the task began")
		}
	default:
		t.Error("its holder waits still")
	}
}

// A result that cannot be written, as on a full disk, is written when it can be, once.
func TestResultIsWrittenLater(t *testing.T) {
	h := newFakeHost(t)
	store := Store{Dir: t.TempDir()}
	said := make(chan struct{}, 1)
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(notifier(said), &slog.HandlerOptions{Level: slog.LevelError}))
	q := NewQueue(ctx, Config{Store: store, Boxes: h, Jobs: h, Snapshotter: noChanges, Log: log, HasRoom: func([]Need, Need) bool { return true }})
	one := submit(t, q, 0, "0")[0]
	r, err := q.open(ctx, record{ID: one.ID})
	if err != nil {
		t.Fatal(err)
	}
	away := r.dir + ".away"
	if err := errors.Join(os.Rename(r.dir, away), os.WriteFile(r.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() { done <- r.finish(ctx, agentbox.Result{State: agentbox.TaskSucceeded}) }()
	<-said
	if err := errors.Join(os.Remove(r.dir), os.Rename(away, r.dir)); err != nil {
		t.Fatal(err)
	}
	if !<-done {
		t.Error("it is given up")
	}
	if got, err := store.Read(one.ID); err != nil || got.State != agentbox.TaskSucceeded {
		t.Errorf("%+v, %v", got, err)
	}
}

// notifier tells of each line that is written.
type notifier chan struct{}

func (n notifier) Write(b []byte) (int, error) {
	select {
	case n <- struct{}{}:
	default:
	}
	return len(b), nil
}
