package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/job"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/kube"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/workspace"
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
	t.handleHeld(mux)
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

// list returns the tasks of one project, from any of its checkouts, or all tasks. Outside a
// checkout there is no project, so it returns all tasks there too.
func (t Tasks) list(ctx context.Context, req api.TaskList, progress agentbox.Progress) ([]agentbox.Task, error) {
	// A record that cannot be read hides only its own task, and is reported.
	all, bad := t.Queue.Store.List()
	for _, err := range bad {
		progress.Note(err.Error())
	}
	all = slices.DeleteFunc(append([]agentbox.Task{}, all...), func(t agentbox.Task) bool { return t.EndedBefore(req.Since) })
	if !req.All {
		// Other checkouts of the same project have the same tasks.
		p, err := sources.ProjectOf(ctx, req.Directory)
		// Invalid means a directory without a checkout. Any other error means that the checkout
		// cannot be read, and must not look like a project without tasks.
		if err != nil && agentbox.CodeOf(err) != agentbox.Invalid {
			return nil, err
		}
		if err == nil {
			all = slices.DeleteFunc(all, func(one agentbox.Task) bool { return one.Project != p.Name })
		}
	}
	if n := req.Newest; n > 0 && len(all) > n {
		all = all[len(all)-n:]
	}
	for i := range all {
		t.AddRunningUsage(ctx, &all[i])
	}
	return all, nil
}

// AddRunningUsage adds what a running attempt has used so far. If the box cannot be found, it has
// just gone, and the task's result will have the figures.
func (t Tasks) AddRunningUsage(ctx context.Context, one *agentbox.Task) {
	last := one.Last()
	if last == nil || last.Result != nil {
		return
	}
	if box, err := t.Boxes.Find(ctx, api.BoxRef{Box: last.BoxName}); err == nil {
		seen, _ := t.Evidence.usage(box) // the queue reports errors when it counts
		one.AddUsage(seen.Used, seen.Cost)
	}
}

// Submit captures the checkout, so that the tasks run what is there now. It reads the configuration
// to find what the boxes will use, so that mistakes show at once. It
// returns when the tasks are stored, and does not wait for them.
func (t Tasks) Submit(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) ([]agentbox.Task, error) {
	if err := t.findWhere(&req.Spec); err != nil {
		return nil, err
	}
	if req.Spec.Source == nil {
		_, ref, release, err := t.Sources.CaptureIn(ctx, req.Spec.Directory)
		if err != nil {
			return nil, err
		}
		defer release()
		req.Spec.Source = &ref
	}
	s, err := t.submission(ctx, req, progress)
	if err != nil {
		return nil, err
	}
	return t.Queue.Submit(s)
}

// findWhere replaces the name of a machine by its ID, and refuses what only this machine's user may
// ask for, of this machine.
func (t Tasks) findWhere(spec *agentbox.TaskSpec) error {
	switch spec.Where {
	case "", "here":
		spec.Where = ""
		return nil
	case fleet.Idle:
	default:
		if label, is := strings.CutPrefix(spec.Where, fleet.Label); is && label != "" {
			break
		}
		if kube.Is(spec.Where) {
			if err := resolveCluster(t.Evidence.Home, spec); err != nil {
				return err
			}
			break
		}
		if t.FindPeer == nil {
			return agentbox.Errorf(agentbox.Unavailable, "this machine's part in its team cannot be read")
		}
		id, err := t.FindPeer(spec.Where)
		if err != nil {
			return err
		}
		spec.Where = id
	}
	kinds := []agentbox.Isolation{"", agentbox.Auto, agentbox.GVisor, agentbox.MicroVM}
	if spec.Image != "" || !slices.Contains(kinds, spec.Isolation) {
		return agentbox.Errorf(agentbox.Invalid, "--image, and weak isolation, are for this machine only").WithHint("set image: in agentbox.yaml, or leave out --where")
	}
	return nil
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

// place returns where the configuration of a task is: in its source, else in the checkout. The source
// stays until release is called.
func (t Tasks) place(ctx context.Context, spec agentbox.TaskSpec) (directory string, release func(), err error) {
	if spec.Source == nil {
		return spec.Directory, func() {}, nil
	}
	c, release, err := t.Sources.Open(ctx, spec.Source.Digest)
	return c.Directory(spec.Source.Subdir), release, err
}

// submission returns the request to the queue: one spec for each command, with the project,
// artifacts and needs from the configuration. From then on these no longer depend on the
// configuration.
func (t Tasks) submission(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) (task.Submission, error) {
	dir, release, err := t.place(ctx, req.Spec)
	if err != nil {
		return task.Submission{}, err
	}
	defer release()
	cfg, err := config.Load(ctx, dir)
	if err != nil {
		return task.Submission{}, err
	}
	if err := t.checkCost(req.Spec.Limits, cfg, progress); err != nil {
		return task.Submission{}, err
	}
	p, err := sources.ProjectOf(ctx, dir)
	if err != nil {
		return task.Submission{}, err
	}
	// From here on the spec is complete. The configuration may change, and the checkout may
	// disappear, before the task starts.
	req.Spec.Project, req.Spec.Environ = p.Name, includeEnviron(cfg, req.Environ)
	// Globs are relative to the configuration's directory, anywhere in the checkout.
	if req.Spec.Artifacts, req.Spec.Lockfiles = cfg.Artifacts, cfg.Lockfiles; len(cfg.Artifacts) > 0 {
		if req.Spec.ArtifactsIn, err = relativeDir(ctx, dir, cfg.Root); err != nil {
			return task.Submission{}, err
		}
	}
	if req.Spec.Checks, err = t.Checks.of(cfg); err != nil {
		return task.Submission{}, err
	}
	if err := t.checkLoan(ctx, req.Spec, req.Environ); err != nil {
		return task.Submission{}, err
	}
	// Computed now, so that a size that is impossible here shows at once.
	need, err := needOf(cfg, req.Spec)
	if err != nil {
		return task.Submission{}, err
	}
	if kube.Is(req.Spec.Where) {
		need = podNeed(cfg, req.Spec)
		progress.Note(podText)
	}
	s := task.Submission{Parallel: req.Parallel, Need: need}
	for _, command := range req.Commands {
		spec := req.Spec
		spec.Command = command
		s.Specs = append(s.Specs, spec)
	}
	return s, nil
}

// checkLoan refuses a submission whose secrets nobody could give. Variables of environ may have them.
func (t Tasks) checkLoan(ctx context.Context, spec agentbox.TaskSpec, environ []string) error {
	if len(spec.Secrets) == 0 || spec.For != nil {
		return nil
	}
	if spec.Where == "" || kube.Is(spec.Where) {
		return agentbox.Errorf(agentbox.Invalid, "--secret lends a secret to another machine of the team").
			WithHint("tasks of this machine have all secrets of the project; add --where idle, or leave out --secret")
	}
	return t.CanLend(ctx, spec, environ)
}

// checkCost requires a table of rates for a limit of cost, which would otherwise have no effect. It
// refuses a limit that the user set for this task if there is no table. A limit in the
// configuration applies to users without a table too, so it only causes a message.
func (t Tasks) checkCost(l agentbox.TaskLimits, cfg *config.Config, progress agentbox.Progress) error {
	if l.Cost == 0 && l.BatchCost == 0 && cfg.Limits.Cost == 0 {
		return nil
	}
	path := t.Evidence.Home.Rates()
	rates, err := cost.Load(path)
	if err != nil || rates != nil {
		return err
	}
	if l.Cost > 0 || l.BatchCost > 0 {
		return agentbox.Errorf(agentbox.Invalid, "a limit of cost needs a table of rates, and there is none").WithHint("write %s; docs/costs.md has its form", path)
	}
	progress.Note("limits: cost has no effect without a table of rates in " + path)
	return nil
}

// needOf returns what a box may use with this configuration and the flags that override it: at most
// what it would get if it were alone on this machine. It counts whole CPUs, and memory in bytes. It
// Checks the isolation now, so that a typing error does not make a task fail an hour later.
func needOf(cfg *config.Config, spec agentbox.TaskSpec) (task.Need, error) {
	if err := agentbox.CheckIsolation(cmp.Or(spec.Isolation, agentbox.Auto)); err != nil {
		return task.Need{}, fmt.Errorf("--isolation: %w", err)
	}
	if err := (flags.Flags{CPUs: spec.CPUs, Memory: spec.Memory}).Check(); err != nil {
		return task.Need{}, err
	}
	need := task.Need{CPUs: cmp.Or(spec.CPUs, cfg.CPUs), Memory: cfg.Memory}
	if spec.Memory != "" {
		need.Memory, _ = config.ParseSize(spec.Memory) // already validated
	}
	if spec.Where != "" { // what this machine has does not matter
		return task.Need{CPUs: cmp.Or(need.CPUs, cfg.Least.CPUs), Memory: cmp.Or(need.Memory, cfg.Least.Memory)}, nil
	}
	// If a size is not set, the box gets it depending on what runs beside it then. The queue
	// assumes the maximum, since it would otherwise start more tasks than fit.
	machine, err := resources.Measure()
	if err != nil && need.CPUs != 0 && need.Memory != 0 {
		return need, nil
	}
	if err != nil {
		return need, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err).WithHint("set cpus: and memory: in agentbox.yaml")
	}
	full := machine.Full()
	need.CPUs = cmp.Or(need.CPUs, max(full.CPUs, min(cfg.Least.CPUs, machine.CPUs)))
	need.Memory = min(cmp.Or(need.Memory, max(full.Memory, cfg.Least.Memory)), machine.Most())
	return need, nil
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

// log writes what the last attempt of a task left. A command that never ran has left nothing.
func (t Tasks) log(ctx context.Context, req api.TaskLogRequest, w io.Writer) error {
	id, err := t.Find(req.TaskRef)
	if err != nil {
		return err
	}
	found, err := t.Queue.Store.Read(id)
	last := found.Last()
	switch {
	case err != nil:
		return err
	case req.Follow && found.Where != "" && !found.State.Done():
		return t.Elsewhere.FollowTask(ctx, id, w)
	case last == nil || last.Result == nil && last.Worker == "":
		return agentbox.Errorf(agentbox.Conflict, "task %s has left nothing yet: it is %s", id, found.State).WithHint("agentbox task logs -f %s follows it", id)
	case req.Service != "":
		return t.serviceLog(found, req.Service, w)
	}
	f, err := t.Queue.Store.Transcript(id, last.Number)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if req.Cast {
		_, err = io.Copy(w, f)
		return err
	}
	return job.WriteCastText(w, f)
}

// serviceLog writes the end of a service's log, as it was when the task's last attempt ended.
func (t Tasks) serviceLog(found agentbox.Task, service string, w io.Writer) error {
	last := found.Last()
	if names := last.Result.Services; !slices.Contains(names, service) {
		return agentbox.Errorf(agentbox.NotFound, "task %s left no log of a service %q", found.ID, service).
			WithHint("agentbox task show %s lists them", found.ID)
	}
	f, err := os.Open(filepath.Join(t.Queue.Store.Attempt(found.ID, last.Number), servicesDir, service+".log"))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// show returns a task with its evidence: the timelines of all attempts, and what is known so far of
// a running one, which is added to what the task has used.
func (t Tasks) show(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (api.TaskInfo, error) {
	id, err := t.Find(ref)
	if err != nil {
		return api.TaskInfo{}, err
	}
	found, err := t.Queue.Store.Read(id)
	info := api.TaskInfo{Task: found}
	if err != nil {
		return info, err
	}
	for _, a := range found.Attempts {
		// Each attempt has its own timeline, in chronological order.
		events, err := t.Queue.Store.Timeline(id, a.Number)
		if err != nil {
			continue // it has just started
		}
		for _, m := range events {
			info.Timeline = append(info.Timeline, api.TaskEvent{Attempt: a.Number, Time: m.Time, Event: m.What, Detail: m.Detail, Took: m.Took})
		}
	}
	info.Waits = t.Elsewhere.Waits(found)
	if last := found.Last(); last != nil && last.Result == nil {
		if info.Now = t.partialEvidence(ctx, *last); info.Now != nil {
			info.Task.AddUsage(info.Now.Used, info.Now.Cost)
		}
	}
	return info, nil
}

// partialEvidence returns what is known of a running attempt, or nil before it has a box. It has
// the form of a result, so that the same code shows both.
func (t Tasks) partialEvidence(ctx context.Context, a agentbox.Attempt) *agentbox.Result {
	box, err := t.Boxes.Find(ctx, api.BoxRef{Box: a.BoxName})
	if err != nil {
		return nil
	}
	seen, _ := t.Evidence.read(box) // the queue reports errors when it counts
	return &agentbox.Result{State: agentbox.TaskRunning, Used: seen.Used, Cost: seen.Cost, Denied: seen.Denied, Pressure: seen.Pressure}
}

// relativeDir is the path of a directory within its repository, slash-separated, "" for the top.
func relativeDir(ctx context.Context, dir, root string) (string, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return "", err
	}
	// repo.Root is resolved, so root must be too.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(repo.Root, root)
	if err != nil || !filepath.IsLocal(rel) {
		return "", nil // the configuration is not in this repository: its globs start at the top
	}
	return filepath.ToSlash(rel), nil
}
