package tasks

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/kube"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/mesh/identity"
)

// QueueJobs gives the queue access to jobs by box and id (task.Jobs). The queue names a job exactly,
// unlike people, so nothing is searched for.
type QueueJobs struct{ jobs.Jobs }

// Start starts a job. The id is the attempt's, so if the job was already started, Start finds it.
func (q QueueJobs) Start(ctx context.Context, req api.JobStart) (api.JobStarted, error) {
	return q.Jobs.Start(ctx, req, nil)
}

// Show returns a job of a box. NotFound means that there is no such job, so it was never started.
func (q QueueJobs) Show(ctx context.Context, box string, id agentbox.JobID) (task.JobFiles, error) {
	b, err := q.Boxes.Find(ctx, api.BoxRef{Box: box})
	if err != nil {
		return task.JobFiles{}, err
	}
	found, dir, err := q.Records().Job(b, id)
	return task.JobFiles{Job: found, Dir: dir}, err
}

// Signal sends a signal to a running job.
func (q QueueJobs) Signal(ctx context.Context, req api.JobSignal) error {
	_, err := q.Jobs.Signal(ctx, req, nil)
	return err
}

// AwaitEnd returns when the supervisor of a box tells that a job has ended, or cannot.
func (q QueueJobs) AwaitEnd(ctx context.Context, box string, id agentbox.JobID) error {
	b, err := q.Boxes.Find(ctx, api.BoxRef{Box: box})
	if err != nil {
		return err
	}
	return q.Records().AwaitJob(ctx, b.ID, id)
}

// Tasks serves the calls about the tasks of this machine. It reads requests and configurations for
// the queue, which knows neither.
type Tasks struct {
	Queue    *task.Queue
	Boxes    jobs.Boxes
	Evidence Evidence
	Sources  sources.Sources
	Checks   Checks
	FindPeer func(name string) (id string, err error) // nil without a mesh
	CanLend  func(ctx context.Context, spec agentbox.TaskSpec, environ []string) error
	// Elsewhere has the boxes of tasks that other machines run.
	Elsewhere Elsewhere
}

// Elsewhere are the tasks that other machines run for this one, and this one for others.
type Elsewhere interface {
	// Refuse gives a task of another machine back.
	Refuse(agentbox.Task) error
	// Keeper finds the builder that keeps tasks by its name, and transfer hands it one.
	Keeper(name string) (identity.PeerID, error)
	Transfer(agentbox.TaskID, identity.PeerID) error
	// Followed is closed when one more task is one that can be transferred.
	Followed() <-chan struct{}
	// Waits says for what a task waits, nil if it does not wait for a machine.
	Waits(agentbox.Task) *api.TaskWait
	// FollowTask writes what a task's command writes, until it ends.
	FollowTask(ctx context.Context, id agentbox.TaskID, w io.Writer) error
	// WorkSoFar is what a task has done so far.
	WorkSoFar(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (*snapshot.Kept, error)
}

// Handle registers the calls about tasks. Each takes a task by its id or a prefix of it. A client
// Waits by keeping the call open, and hanging up only ends the waiting.
func (t Tasks) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.SubmitTasks, t.Submit)
	api.Handle(mux, api.ListTasks, t.list)
	api.Handle(mux, api.ShowTask, t.show)
	api.Handle(mux, api.TransferTasks, t.Transfer)
	api.Handle(mux, api.RetryBatch, t.retryBatch)
	api.HandleDownload(mux, api.TaskLog, t.log)
	t.handleForeground(mux)
	each := func(e api.Endpoint[api.TaskRef, agentbox.Task], do func(context.Context, agentbox.TaskID) (agentbox.Task, error)) {
		api.Handle(mux, e, func(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (agentbox.Task, error) {
			id, err := t.Find(ref)
			if err != nil {
				return agentbox.Task{}, err
			}
			return do(ctx, id)
		})
	}
	each(api.WaitTask, t.Queue.Wait)
	each(api.RetryTask, t.retry)
	each(api.CancelTask, t.cancel)
	each(api.RemoveTask, func(_ context.Context, id agentbox.TaskID) (agentbox.Task, error) {
		was, err := t.Queue.Store.Read(id)
		if err != nil {
			return was, err
		}
		return was, t.Queue.Remove(id)
	})
}

// retry submits a task that has ended again, with the checkout as it is now, or, if that is not here,
// with what the task was made from.
func (t Tasks) retry(ctx context.Context, id agentbox.TaskID) (again agentbox.Task, err error) {
	release := func() {}
	defer func() { release() }()
	return t.Queue.Retry(id, func(spec agentbox.TaskSpec) (*agentbox.SourceRef, error) {
		_, ref, free, err := t.Sources.CaptureIn(ctx, spec.Directory)
		if err != nil && spec.Source != nil {
			if _, free, err = t.Sources.Open(ctx, spec.Source.Digest); err == nil {
				ref = *spec.Source
			}
		}
		if err != nil {
			return nil, err
		}
		release = free
		return &ref, nil
	})
}

func (t Tasks) retryBatch(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) ([]agentbox.Task, error) {
	id, err := t.Find(ref)
	if err != nil {
		return nil, err
	}
	var held []func()
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	return t.Queue.RetryBatch(id, func(spec agentbox.TaskSpec) (*agentbox.SourceRef, error) {
		if spec.Source != nil {
			if _, release, err := t.Sources.Open(ctx, spec.Source.Digest); err == nil {
				held = append(held, release)
				return spec.Source, nil
			}
		}
		_, ref, release, err := t.Sources.CaptureIn(ctx, spec.Directory)
		if err == nil {
			held = append(held, release)
		}
		return &ref, err
	})
}

// cancel ends a task. One of another machine's is only not run here any more: it goes back.
func (t Tasks) cancel(_ context.Context, id agentbox.TaskID) (agentbox.Task, error) {
	found, err := t.Queue.Store.Read(id)
	if err == nil && found.For != nil && !found.State.Done() {
		return found, t.Elsewhere.Refuse(found)
	}
	if err := t.Queue.Cancel(id); err != nil {
		return agentbox.Task{}, err
	}
	return t.Queue.Store.Read(id)
}

// followTime is how long a task that has just begun, or whose daemon has, may take to be followed.
const followTime = 10 * time.Second

// transferOne waits for a task that is about to be followed: the daemon answers before its queue has
// looked at all of them.
func (t Tasks) transferOne(ctx context.Context, id agentbox.TaskID, to identity.PeerID) error {
	late := time.NewTimer(followTime)
	defer late.Stop()
	for {
		followed := t.Elsewhere.Followed()
		err := t.Elsewhere.Transfer(id, to)
		if agentbox.CodeOf(err) != agentbox.Conflict {
			return err
		}
		if one, readErr := t.Queue.Store.Read(id); readErr != nil || one.State.Done() || one.Where == "" || len(one.Attempts) == 0 {
			return err
		}
		select {
		case <-followed:
		case <-late.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Transfer is api.TransferTasks. With names it stops at the first that fails.
func (t Tasks) Transfer(ctx context.Context, req api.TaskTransfer, _ agentbox.Progress) (all []agentbox.Task, err error) {
	var to identity.PeerID
	if req.To != "" {
		if to, err = t.Elsewhere.Keeper(req.To); err != nil {
			return nil, err
		}
	}
	names := req.Tasks
	if len(names) == 0 {
		for _, open := range t.Queue.Open() {
			if open.Where != "" && open.For == nil && !kube.Is(open.Where) {
				names = append(names, open.ID.String())
			}
		}
	}
	all = []agentbox.Task{}
	for _, name := range names {
		id, err := t.Find(api.TaskRef{Task: name})
		if err == nil {
			err = t.transferOne(ctx, id, to)
		}
		if agentbox.CodeOf(err) == agentbox.Conflict && len(req.Tasks) == 0 {
			continue // it waits for its turn, or has just ended
		}
		if err != nil {
			return all, err
		}
		one, err := t.Queue.Store.Read(id)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (t Tasks) Find(ref api.TaskRef) (agentbox.TaskID, error) { return findTask(t.Queue.Store, ref) }

// findTask returns the task whose id starts with ref. It does not look up a full id: the queue reports
// whether there is such a task.
func findTask(store task.Store, ref api.TaskRef) (agentbox.TaskID, error) {
	if id, err := agentbox.ParseTaskID(ref.Task); err == nil {
		return id, nil
	}
	if ref.Task == "" {
		return agentbox.TaskID{}, agentbox.Errorf(agentbox.Invalid, "no task named").WithHint("agentbox task ls lists them")
	}
	// A task whose record cannot be read cannot be found by a prefix.
	all, _ := store.List()
	var found []agentbox.TaskID
	for _, one := range all {
		if strings.HasPrefix(one.ID.String(), ref.Task) {
			found = append(found, one.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return agentbox.TaskID{}, agentbox.Errorf(agentbox.NotFound, "there is no task %q", ref.Task).WithHint("agentbox task ls --all lists them")
	}
	return agentbox.TaskID{}, agentbox.Errorf(agentbox.Invalid, "the ids of %d tasks begin with %s", len(found), ref.Task).WithHint("agentbox task ls --all lists them")
}
