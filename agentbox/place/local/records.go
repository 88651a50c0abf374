package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/agentbox/job"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/agentbox/place/local/templates"
)

// Records is what supervisors write down about the boxes of a home, of which most outlives them, and
// the jobs that they run. Nothing of it wakes a box.
type Records struct{ Home home.Home }

// OpenLog opens what the machine of a box printed on its console in its current or last life, or,
// with supervisor, what happened to the machine. NotFound if there is nothing.
func (r Records) OpenLog(id agentbox.BoxID, supervisor bool) (*os.File, error) {
	name := r.Home.Box(id).Log()
	if !supervisor {
		name = console(r.Home.Box(id).Dir)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !supervisor {
		return nil, agentbox.Errorf(agentbox.NotFound, "its machine has printed nothing on its console")
	}
	if err != nil {
		return nil, agentbox.Errorf(agentbox.NotFound, "the box has no such log: %w", err)
	}
	return f, nil
}

// console is the console of the highest life, which exists if there is any: a reset or a start
// begins a new file, and the old one is removed with its life.
func console(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "life-*", templates.ConsoleFile))
	if len(files) == 0 {
		return filepath.Join(dir, templates.ConsoleFile)
	}
	// The names are life-N without leading zeros, so a longer name has the higher number; names of
	// equal length compare as strings.
	return slices.MaxFunc(files, func(f, g string) int { return cmp.Or(len(f)-len(g), strings.Compare(f, g)) })
}

// StartJob starts a job in a box that runs. From then on its supervisor owns the job.
func (r Records) StartJob(ctx context.Context, id agentbox.BoxID, spec agentbox.JobSpec) (api.JobStarted, error) {
	return ask(ctx, r, id, control.StartJob, spec)
}

// SignalJob sends a signal to a job that runs.
func (r Records) SignalJob(ctx context.Context, id agentbox.BoxID, req api.JobSignal) error {
	_, err := ask(ctx, r, id, control.SignalJob, req)
	return err
}

// AwaitJob returns when the supervisor of a box tells that a job has ended, or cannot.
func (r Records) AwaitJob(ctx context.Context, id agentbox.BoxID, of agentbox.JobID) error {
	_, err := ask(ctx, r, id, control.WaitJob, of)
	return err
}

func ask[Q, A any](ctx context.Context, r Records, id agentbox.BoxID, e api.Endpoint[Q, A], req Q) (A, error) {
	client := api.NewClient(r.Home.Box(id).Control())
	defer client.Close()
	return api.Call(ctx, client, e, req, nil)
}

// Jobs lists the jobs of a box. Their states follow from their records and the state of the box.
func (r Records) Jobs(b agentbox.Box) []agentbox.Job { return job.List(r.Home.Box(b.ID).Jobs(), b) }

// Job reads a job and says which directory has its record and transcript (package job). NotFound if
// it was never started.
func (r Records) Job(b agentbox.Box, id agentbox.JobID) (found agentbox.Job, dir string, err error) {
	found, err = job.Read(r.Home.Box(b.ID).Jobs(), id, b)
	if errors.Is(err, fs.ErrNotExist) {
		err = agentbox.Errorf(agentbox.NotFound, "box %s has no job %s", b.Name, id)
	}
	return found, r.jobDir(b.ID, id), err
}

func (r Records) jobDir(box agentbox.BoxID, id agentbox.JobID) string {
	return job.Dir(r.Home.Box(box).Jobs(), id)
}

// Transcript is what a job printed.
func (r Records) Transcript(box agentbox.BoxID, id agentbox.JobID) job.Transcript {
	return job.OpenTranscript(r.jobDir(box, id))
}

// RemoveJob removes a job that has ended.
func (r Records) RemoveJob(box agentbox.BoxID, id agentbox.JobID) error {
	return os.RemoveAll(r.jobDir(box, id))
}

// accountTimeout is how long a supervisor may take to bring an account up to date. What it wrote a
// moment ago is good enough.
const accountTimeout = 5 * time.Second

// UpdateAccount asks a running supervisor to write down what it has not written yet: the account of a
// task's box, and the logs of its services. One that has ended did so before.
func (r Records) UpdateAccount(ctx context.Context, id agentbox.BoxID) {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	client := api.NewClient(r.Home.Box(id).Control())
	defer client.Close()
	_ = control.WriteAccount(ctx, client)
}

// Account is what a task's box has used, at most a quarter of a second ago, and what it ran short of.
func (r Records) Account(id agentbox.BoxID) (agentbox.Consumption, []agentbox.Pressure, error) {
	a, err := supervisor.ReadAccount(r.Home.Box(id).Account())
	return a.Consumption, a.Pressure, err
}

// CopyServiceLogs copies the logs of a box's services that its supervisor has left, and returns the
// names of the services. It skips names that do not end in .log or that begin with a dot, which were
// still being written. The supervisor has already bounded their size.
func (r Records) CopyServiceLogs(id agentbox.BoxID, to string) (names []string, err error) {
	from := r.Home.Box(id).ServiceLogs()
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = os.MkdirAll(to, 0o700)
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		if !isLog || strings.HasPrefix(name, ".") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = durable.Replace(filepath.Join(to, e.Name()), b, 0o600)
		}
		if errs = append(errs, err); err == nil {
			names = append(names, name)
		}
	}
	return names, errors.Join(errs...)
}
