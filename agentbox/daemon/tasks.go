package daemon

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/config"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/job"
	"agentbox/agentbox/project"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/workspace"
)

// taskJobs gives tasks their jobs, which each are known by box and id (task.Jobs). Unlike people,
// the queue names a job exactly, so nothing is searched for.
type taskJobs struct{ jobs }

// Start starts a job, or finds that it was started: the id is the attempt's.
func (t taskJobs) Start(ctx context.Context, req api.JobStart) (api.JobStarted, error) {
	return t.start(ctx, req, nil)
}

// Show gives a job of a box. NotFound: there is no such job, so it was never started.
func (t taskJobs) Show(ctx context.Context, box string, id agentbox.JobID) (api.JobInfo, error) {
	b, err := t.boxes.Find(ctx, api.BoxRef{Box: box})
	if err != nil {
		return api.JobInfo{}, err
	}
	found, err := job.Read(t.home.Box(b.ID).Jobs(), id, b)
	if errors.Is(err, fs.ErrNotExist) {
		return api.JobInfo{}, agentbox.Errorf(agentbox.NotFound, "box %s has no job %s", box, id)
	}
	if err != nil {
		return api.JobInfo{}, err
	}
	return api.JobInfo{Job: found, Dir: job.Dir(t.home.Box(b.ID).Jobs(), id)}, nil
}

// Signal sends a signal to a job that runs.
func (t taskJobs) Signal(ctx context.Context, req api.JobSignal) error {
	_, err := t.signal(ctx, req, nil)
	return err
}

// Shares of this machine that the boxes of tasks may have together.
const (
	memoryShare = 0.75 // of the memory
	cpuShare    = 2    // times the CPUs: agents wait for their models most of the time
	memoryLeft  = 0.1  // of the memory is to be available still
)

// room tells whether one more box may begin: nothing that runs is to be swapped out for it. What
// the machine says is available counts as well as what was promised: other programs take of it,
// too. Where it cannot be found out there is no room.
func room(running []task.Need, next task.Need) bool {
	cpus, memory := next.CPUs, next.Memory
	for _, n := range running {
		cpus, memory = cpus+n.CPUs, memory+n.Memory
	}
	machine, err := resources.Measure()
	if err != nil {
		return false
	}
	total, available := float64(machine.Memory), float64(machine.Available)
	return cpus <= cpuShare*machine.CPUs && float64(memory) <= memoryShare*total && available-float64(next.Memory) >= memoryLeft*total
}

// tasks answers for the tasks of this machine: it reads requests and configurations for the queue,
// which knows neither.
type tasks struct {
	queue    *task.Queue
	boxes    boxFinder
	evidence evidence
}

// handle serves the calls about tasks. Each takes a task by its id or a beginning of it. To wait is
// to keep the call open; hanging up ends the waiting and nothing else.
func (t tasks) handle(mux *http.ServeMux) {
	api.Handle(mux, api.SubmitTasks, t.submit)
	api.Handle(mux, api.ListTasks, t.list)
	api.Handle(mux, api.ShowTask, t.show)
	t.handleHeld(mux)
	each := func(e api.Endpoint[api.TaskRef, agentbox.Task], do func(context.Context, agentbox.TaskID) (agentbox.Task, error)) {
		api.Handle(mux, e, func(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (agentbox.Task, error) {
			id, err := t.find(ref)
			if err != nil {
				return agentbox.Task{}, err
			}
			return do(ctx, id)
		})
	}
	each(api.WaitTask, t.queue.Wait)
	each(api.RetryTask, func(_ context.Context, id agentbox.TaskID) (agentbox.Task, error) { return t.queue.Retry(id) })
	each(api.CancelTask, func(_ context.Context, id agentbox.TaskID) (agentbox.Task, error) {
		if err := t.queue.Cancel(id); err != nil {
			return agentbox.Task{}, err
		}
		return t.queue.Store.Read(id)
	})
	each(api.RemoveTask, func(_ context.Context, id agentbox.TaskID) (agentbox.Task, error) {
		was, err := t.queue.Store.Read(id)
		if err != nil {
			return was, err
		}
		return was, t.queue.Remove(id)
	})
}

// list gives the tasks of one project, in whichever of its checkouts they were submitted, or all.
// Outside of any checkout there is no project, so that is all, too.
func (t tasks) list(ctx context.Context, req api.TaskList, progress agentbox.Progress) ([]agentbox.Task, error) {
	// One record that cannot be read hides one task, and is told.
	all, bad := t.queue.Store.List()
	for _, err := range bad {
		progress.Say(err.Error())
	}
	all = append([]agentbox.Task{}, all...)
	if !req.All {
		// A checkout elsewhere of the same project has the same tasks.
		p, err := projectOf(ctx, req.Directory)
		// Invalid is a directory without a checkout; anything else is a checkout that cannot be
		// read, whose tasks nobody must take for none.
		if err != nil && agentbox.CodeOf(err) != agentbox.Invalid {
			return nil, err
		}
		if err == nil {
			all = slices.DeleteFunc(all, func(one agentbox.Task) bool { return one.Project != p.Name })
		}
	}
	for i := range all {
		t.accountNow(ctx, &all[i])
	}
	return all, nil
}

// accountNow adds what an attempt that goes on has used until now. A box that cannot be found has
// just gone, and its result will say it.
func (t tasks) accountNow(ctx context.Context, one *agentbox.Task) {
	last := one.Last()
	if last == nil || last.Result != nil {
		return
	}
	if box, err := t.boxes.Find(ctx, api.BoxRef{Box: last.BoxName}); err == nil {
		seen, _ := t.evidence.spent(box) // the queue tells of errors, when it counts
		one.Account(seen.Used, seen.Cost)
	}
}

// projectOf is the project of the checkout that a directory is in. Invalid for a directory that is
// in no checkout.
func projectOf(ctx context.Context, dir string) (project.Project, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return project.Project{}, err
	}
	return project.Of(repo.Root)
}

// submit reads the configuration for what the boxes will take, so that its mistakes show at once.
// It returns when the tasks are written down, and waits for none of them.
func (t tasks) submit(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) ([]agentbox.Task, error) {
	s, err := t.submission(ctx, req, progress)
	if err != nil {
		return nil, err
	}
	return t.queue.Submit(s)
}

// submission is what the queue is asked for: one spec for each command, with what the configuration
// says of projects, artifacts and needs written into it. From then on the task does not depend on
// the configuration for these.
func (t tasks) submission(ctx context.Context, req api.TaskSubmission, progress agentbox.Progress) (task.Submission, error) {
	cfg, err := config.Load(ctx, req.Spec.Directory)
	if err != nil {
		return task.Submission{}, err
	}
	if err := t.checkCost(req.Spec.Limits, cfg, progress); err != nil {
		return task.Submission{}, err
	}
	p, err := projectOf(ctx, req.Spec.Directory)
	if err != nil {
		return task.Submission{}, err
	}
	// From here on the spec has everything: the configuration may change, and the checkout may go,
	// before the task begins.
	req.Spec.Project, req.Spec.Environ = p.Name, includeEnviron(cfg, req.Environ)
	// Globs begin at the configuration's directory, which is somewhere in the checkout.
	if req.Spec.Artifacts, req.Spec.Lockfiles = cfg.Artifacts, cfg.Lockfiles; len(cfg.Artifacts) > 0 {
		if req.Spec.ArtifactsIn, err = below(ctx, req.Spec.Directory, cfg.Root); err != nil {
			return task.Submission{}, err
		}
	}
	// It is asked for now, so that a size that is not possible here shows at once.
	need, err := needOf(cfg, req.Spec)
	if err != nil {
		return task.Submission{}, err
	}
	s := task.Submission{Parallel: req.Parallel, Need: need}
	for _, command := range req.Commands {
		spec := req.Spec
		spec.Command = command
		s.Specs = append(s.Specs, spec)
	}
	return s, nil
}

// checkCost holds a limit of cost to a table that says what things cost: without one it would end
// nothing, and that of a configuration, which is for everybody, ends nothing where somebody has
// none. A limit that the user gave for this task is refused without a table; one of the
// configuration is told of and left out.
func (t tasks) checkCost(l agentbox.TaskLimits, cfg *config.Config, progress agentbox.Progress) error {
	if l.Cost == 0 && cfg.Limits.Cost == 0 {
		return nil
	}
	path := t.evidence.home.Rates()
	rates, err := cost.Load(path)
	if err != nil || rates != nil {
		return err
	}
	if l.Cost > 0 {
		return agentbox.Errorf(agentbox.Invalid, "a limit of cost needs a table of rates, and there is none").WithHint("write %s; docs/jobs-and-tasks.md has its form", path)
	}
	progress.Say("limits: cost has no effect without a table of rates in " + path)
	return nil
}

// needOf is what a box of a configuration and of flags over it may take: at most what it would get
// on this machine alone. CPUs are counted, memory is in bytes. Kinds are checked here, as a task
// that begins in an hour should not fail by a typing error.
func needOf(cfg *config.Config, spec agentbox.TaskSpec) (task.Need, error) {
	kinds := []agentbox.Isolation{"", agentbox.Auto, agentbox.MicroVM, agentbox.GVisor, agentbox.Lima}
	if !slices.Contains(kinds, spec.Isolation) {
		return task.Need{}, agentbox.Errorf(agentbox.Invalid, "--isolation: %q is not a kind of isolation", spec.Isolation).WithHint("use auto, microvm, gvisor or lima")
	}
	if err := (flags.Flags{CPUs: spec.CPUs, Memory: spec.Memory}).Check(); err != nil {
		return task.Need{}, err
	}
	need := task.Need{CPUs: cmp.Or(spec.CPUs, cfg.CPUs), Memory: cfg.Memory}
	if spec.Memory != "" {
		need.Memory, _ = config.ParseSize(spec.Memory) // it was checked
	}
	// What nobody says, the box gets by what runs beside it then. The queue reckons with the most
	// it may be, else it would begin more tasks than fit.
	if need.CPUs != 0 && need.Memory != 0 {
		return need, nil
	}
	machine, err := resources.Measure()
	if err != nil {
		return need, agentbox.Errorf(agentbox.Unavailable, "cannot measure this machine: %w", err).WithHint("say cpus: and memory: in agentbox.yaml")
	}
	full := machine.Full()
	return task.Need{CPUs: cmp.Or(need.CPUs, full.CPUs), Memory: cmp.Or(need.Memory, full.Memory)}, nil
}

// find is the task whose id begins so. A whole id is not looked up: the queue says whether there is
// such a task.
func (t tasks) find(ref api.TaskRef) (agentbox.TaskID, error) {
	if id, err := agentbox.ParseTaskID(ref.Task); err == nil {
		return id, nil
	}
	if ref.Task == "" {
		return agentbox.TaskID{}, agentbox.Errorf(agentbox.Invalid, "no task named").WithHint("agentbox task ls lists them")
	}
	// Tasks that cannot be read cannot be named.
	all, _ := t.queue.Store.List()
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

// show is a task with its evidence: the timelines of all attempts, and of one that goes on what is
// known until now, added to what the task has used.
func (t tasks) show(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (api.TaskInfo, error) {
	id, err := t.find(ref)
	if err != nil {
		return api.TaskInfo{}, err
	}
	found, err := t.queue.Store.Read(id)
	info := api.TaskInfo{Task: found}
	if err != nil {
		return info, err
	}
	for _, a := range found.Attempts {
		info.Directory = t.queue.Store.Attempt(id, a.Number)
		// Each attempt has a timeline of its own, written as things happened.
		moments, err := t.queue.Store.Timeline(id, a.Number)
		if err != nil {
			continue // it has just begun
		}
		for _, m := range moments {
			info.Timeline = append(info.Timeline, api.TaskMoment{Attempt: a.Number, Time: m.Time, What: m.What, Detail: m.Detail, Took: m.Took})
		}
	}
	if last := found.Last(); last != nil && last.Result == nil {
		if info.Now = t.soFar(ctx, *last); info.Now != nil {
			info.Task.Account(info.Now.Used, info.Now.Cost)
		}
	}
	return info, nil
}

// soFar is what is known of an attempt that goes on; nil before it has a box. It is shaped as a
// result, so that what shows one shows the other.
func (t tasks) soFar(ctx context.Context, a agentbox.Attempt) *agentbox.Result {
	box, err := t.boxes.Find(ctx, api.BoxRef{Box: a.BoxName})
	if err != nil {
		return nil
	}
	seen, _ := t.evidence.look(box) // the queue tells of errors, when it counts
	return &agentbox.Result{State: agentbox.TaskRunning, Used: seen.Used, Cost: seen.Cost, Denied: seen.Denied, Pressure: seen.Pressure}
}

// below is where in its repository a directory is. It is slash-separated and "" for the top.
func below(ctx context.Context, dir, root string) (string, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return "", err
	}
	// repo.Root is resolved, so root has to be.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(repo.Root, root)
	if err != nil || !filepath.IsLocal(rel) {
		return "", nil // the configuration is not of this repository: its globs begin at the top
	}
	return filepath.ToSlash(rel), nil
}
