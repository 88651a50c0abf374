package jobs

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place/local"
)

// Boxes is the part of the boxes that jobs need (host.Manager).
type Boxes interface {
	Find(context.Context, api.BoxRef) (agentbox.Box, error)
	List(context.Context, api.ListRequest, agentbox.Progress) ([]agentbox.Box, error)
	Connect(context.Context, api.BoxRef, agentbox.Progress) (api.Connection, error)
}

// Jobs serves the calls about jobs of all boxes. It has no state of its own: a job's state is in
// files in its box's directory, and its supervisor runs it, so that jobs continue without a daemon.
type Jobs struct {
	Home  home.Home
	Boxes Boxes
	// There finds the job of a box of another machine, nil where no task is asked about. known tells
	// whether there is such a box.
	There func(ctx context.Context, box string) (found *agentbox.Job, known bool, err error)
}

func (j Jobs) Records() local.Records { return local.Records{Home: j.Home} }

func (j Jobs) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.StartJob, j.Start)
	api.Handle(mux, api.ListJobs, j.list)
	api.Handle(mux, api.ShowJob, j.Show)
	api.HandleDownload(mux, api.JobLog, j.log)
	api.Handle(mux, api.SignalJob, j.Signal)
	api.Handle(mux, api.RemoveJob, j.remove)
}

// Start makes the box run, and lets its supervisor start the job. From then on the supervisor owns
// the job, so that the end of this call or of this daemon does not affect it. The job's variables
// override those of the box, which include placeholders.
func (j Jobs) Start(ctx context.Context, req api.JobStart, progress agentbox.Progress) (api.JobStarted, error) {
	c, err := j.Boxes.Connect(ctx, req.BoxRef, progress)
	if err != nil {
		return api.JobStarted{}, err
	}
	spec := req.Spec
	// The default is where the caller is in the checkout, as for a command in the foreground.
	if spec.Dir == "" {
		spec.Dir = c.Dir
	}
	if b, err := j.Boxes.Find(ctx, api.BoxRef{Box: c.Box.String()}); err != nil || agentbox.KindOf(b.Isolation).Elsewhere {
		return api.JobStarted{}, cmp.Or(err, error(agentbox.Errorf(agentbox.Invalid, "box %s keeps no jobs: it is on another machine", c.Name).WithHint("leave out --detach, or use nohup or tmux there")))
	}
	env := map[string]string{}
	// The later one wins.
	for _, vars := range []map[string]string{c.Env, spec.Env} {
		maps.Copy(env, vars)
	}
	spec.Env = env
	return j.Records().StartJob(ctx, c.Box, spec)
}

// list returns the jobs of a box or of all boxes. The state of each follows from its record and the
// state of its box.
func (j Jobs) list(ctx context.Context, req api.JobList, progress agentbox.Progress) ([]agentbox.Job, error) {
	boxes, err := j.boxesOf(ctx, req, progress)
	if err != nil {
		return nil, err
	}
	all := []agentbox.Job{}
	for _, b := range boxes {
		all = append(all, j.Records().Jobs(b)...)
	}
	return all, nil
}

// boxesOf returns the box whose jobs are requested, or every box. Listing does not wake a box.
func (j Jobs) boxesOf(ctx context.Context, req api.JobList, progress agentbox.Progress) ([]agentbox.Box, error) {
	if req.All {
		return j.Boxes.List(ctx, api.ListRequest{}, progress)
	}
	b, err := j.Boxes.Find(ctx, req.BoxRef)
	return []agentbox.Box{b}, err
}

func (j Jobs) log(ctx context.Context, req api.JobLogRequest, w io.Writer) error {
	found, err := j.find(ctx, req.JobRef, nil)
	if err != nil {
		return err
	}
	t := j.Records().Transcript(found.Box, found.ID)
	switch {
	case req.Cast:
		return t.WriteCast(ctx, w)
	case req.Lines != nil:
		return t.WriteLastLines(ctx, w, *req.Lines, req.Follow)
	}
	return t.WriteText(ctx, w, req.Follow)
}

func (j Jobs) Address(c api.Connection) environment.Address {
	names := j.Home.Box(c.Box)
	return environment.Address{Name: c.Name, Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts()}
}

// Show finds a job as find does. A task that another machine runs stands for its box.
func (j Jobs) Show(ctx context.Context, req api.JobRef, progress agentbox.Progress) (agentbox.Job, error) {
	found, err := j.find(ctx, req, progress)
	if j.There == nil || agentbox.CodeOf(err) != agentbox.NotFound {
		return found, err
	}
	there, known, thereErr := j.There(ctx, req.Box)
	switch {
	case !known:
		return found, err
	case there != nil:
		return *there, nil
	case thereErr == nil:
		return found, agentbox.Errorf(agentbox.NotFound, "no job runs in box %s", req.Box)
	}
	return found, thereErr
}

// find finds a job by its id or a unique prefix of it, in any box, or else the job that runs in a
// box. If the request names a box, it searches only there.
func (j Jobs) find(ctx context.Context, req api.JobRef, progress agentbox.Progress) (agentbox.Job, error) {
	all, err := j.list(ctx, api.JobList{BoxRef: req.BoxRef, All: req.Job != "" && req.Box == ""}, progress)
	if err != nil {
		return agentbox.Job{}, err
	}
	var found []agentbox.Job
	for _, one := range all {
		if req.Job == "" && (one.State == agentbox.JobRunning || one.State == agentbox.JobPaused) || req.Job != "" && strings.HasPrefix(one.ID.String(), req.Job) {
			found = append(found, one)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && req.Job == "":
		return agentbox.Job{}, agentbox.Errorf(agentbox.Invalid, "%d jobs run in the box", len(found)).WithHint("agentbox jobs lists them: name one")
	case len(found) > 1:
		return agentbox.Job{}, agentbox.Errorf(agentbox.Invalid, "%d jobs are called %s", len(found), req.Job).WithHint("agentbox jobs --all lists them")
	case req.Job == "":
		return agentbox.Job{}, agentbox.Errorf(agentbox.NotFound, "no job runs in the box").WithHint("agentbox exec -d -- CMD... starts one; agentbox jobs lists those that have ended")
	}
	return agentbox.Job{}, agentbox.Errorf(agentbox.NotFound, "there is no job %q", req.Job).WithHint("agentbox jobs --all lists them")
}

// Signal sends a signal to a running job. It returns Conflict if the job does not run, which
// includes a paused one: none of its processes run.
func (j Jobs) Signal(ctx context.Context, req api.JobSignal, progress agentbox.Progress) (api.None, error) {
	found, err := j.find(ctx, api.JobRef{BoxRef: req.BoxRef, Job: req.ID.String()}, progress)
	if err != nil {
		return api.None{}, err
	}
	if found.State != agentbox.JobRunning {
		return api.None{}, agentbox.Errorf(agentbox.Conflict, "job %s does not run: it is %s", found.ID, found.State)
	}
	return api.None{}, j.Records().SignalJob(ctx, found.Box, req)
}

// remove deletes a job that has ended. It returns Conflict if the job is running or paused.
func (j Jobs) remove(ctx context.Context, req api.JobRef, progress agentbox.Progress) (api.None, error) {
	found, err := j.find(ctx, req, progress)
	if err != nil {
		return api.None{}, err
	}
	// The supervisor is still writing its files.
	if found.State == agentbox.JobRunning || found.State == agentbox.JobPaused {
		return api.None{}, agentbox.Errorf(agentbox.Conflict, "job %s is %s", found.ID, found.State).WithHint("agentbox jobs kill %s ends it", found.ID)
	}
	return api.None{}, j.Records().RemoveJob(found.Box, found.ID)
}
