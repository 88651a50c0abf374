package kube

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/kube/oci"
	"agentbox/agentbox/resources"
)

// Remote runs attempts on clusters. It is safe for concurrent use. The fields are required.
type Remote struct {
	Settings string // path of k8s.yaml
	Registry Registry
	// Accept is fleet.Owner's.
	Accept func(ctx context.Context, t agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error)
	// Note adds to an attempt's timeline.
	Note func(dir, what, detail string)
	Log  *slog.Logger
}

// lease is lease.json of an attempt: what package task shows.
type lease struct {
	Name   string `json:"name,omitempty"`   // where its pod runs, or ran last
	Worker string `json:"worker,omitempty"` // the same while it runs: the task counts as running
	Made   bool   `json:"made,omitempty"`   // there was a Job
}

// lookEvery is how often a Job is looked at, and unreachable how long a server is asked in vain before that
// is said.
const lookEvery = 2 * time.Second

// attempt is one that is followed.
type attempt struct {
	*Remote
	settings Settings
	cluster  cluster
	task     agentbox.Task
	agentbox.Attempt
	need  resources.Share
	dir   string
	name  string // of the Job
	lease lease
	waits string // was said last
	logs  func() // ends following the pod's log; nil: nobody does
	pod   string // whose log is followed
}

// Run runs an attempt until there is a result (task.Remote). When ctx ends, the Job goes on for the next
// daemon.
func (r *Remote) Run(ctx context.Context, t agentbox.Task, a agentbox.Attempt, need resources.Share, dir string, cancelled <-chan struct{}) (agentbox.Result, error) {
	at := &attempt{Remote: r, task: t, Attempt: a, need: need, dir: dir, name: jobName(t, a)}
	err := durable.ReadJSON(filepath.Join(dir, fleet.LeaseFile), &at.lease)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		at.settings, err = Load(r.Settings)
	}
	if err == nil {
		at.cluster, err = at.settings.open(t.Where)
	}
	if err != nil {
		return agentbox.Result{}, err
	}
	defer func() { at.follow(ctx, "") }()
	if !at.lease.Made {
		if err := at.begin(ctx, cancelled); err != nil {
			return agentbox.Result{}, err
		}
	}
	return at.watch(ctx, cancelled)
}

// begin makes the Job, unless it was made before the last daemon could say so; then there is the Job, or its
// result.
func (a *attempt) begin(ctx context.Context, cancelled <-chan struct{}) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-cancelled:
			stop()
		case <-ctx.Done():
		}
	}()
	old, err := a.cluster.job(ctx, a.name)
	if err == nil && old.Annotations[jobAnnotation] != a.Job.String() {
		return agentbox.Errorf(agentbox.Conflict, "kubernetes: there is another job %s", a.name)
	}
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if _, err = oci.Find(ctx, a.result()); agentbox.CodeOf(err) == agentbox.NotFound {
			err = a.make(ctx)
		}
	}
	if err != nil {
		return err
	}
	a.lease.Made = true
	return a.write()
}

func (a *attempt) write() error {
	return durable.WriteJSON(filepath.Join(a.dir, fleet.LeaseFile), a.lease, 0o600)
}

func (a *attempt) make(ctx context.Context) error {
	a.Note(a.dir, "image", "is found or made, and brought to "+a.settings.Registry)
	image, work, err := a.Registry.Prepare(ctx, a.settings.Registry, a.task)
	if err != nil {
		return err
	}
	work.Task, work.Result = a.task.ID.String(), a.result()
	what := asked{Task: a.task, Attempt: a.Attempt, Need: a.need, Image: image, Work: work}
	has, err := a.cluster.userNamespaces(ctx, a.settings.Template.Spec.RuntimeClassName)
	switch {
	case err != nil:
		what.HostUsers = true
		a.Note(a.dir, lacks, "whether all nodes have user namespaces is not known ("+agentbox.AsError(err).Message+"): root in the pod may be root of its node's kernel")
	case !has:
		what.HostUsers = true
		a.Note(a.dir, lacks, "not all nodes have user namespaces: root in the pod is root of its node's kernel")
	}
	if err := a.cluster.protect(ctx, networkPolicy(privateHosts(ctx, a.settings.Registry))); err != nil {
		a.Note(a.dir, lacks, "no NetworkPolicy could be made: the pod reaches what any pod does ("+agentbox.AsError(err).Message+")")
	}
	job, err := a.settings.job(what)
	if err != nil {
		return err
	}
	if err := a.cluster.create(ctx, job); err != nil {
		return err
	}
	a.Note(a.dir, "job", a.cluster.namespace+"/"+a.name+" of "+image)
	return nil
}

// lacks is the event of what a cluster lacks.
const lacks = "lacks"

func (a *attempt) result() string { return a.settings.Registry + ":result-" + a.Job.String() }

// watch waits for the end. A server that does not answer is asked again: the Job does not need us.
func (a *attempt) watch(ctx context.Context, cancelled <-chan struct{}) (agentbox.Result, error) {
	for {
		if ctx.Err() != nil {
			return agentbox.Result{}, ctx.Err()
		}
		v, err := a.look(ctx)
		switch {
		case agentbox.CodeOf(err) == agentbox.NotFound:
			return a.collect(ctx, agentbox.Result{State: agentbox.TaskLost, Reason: "its Job was deleted"})
		case err != nil:
			a.waiting(agentbox.AsError(err).Message)
		case v.Over:
			return a.collect(ctx, agentbox.Result{State: agentbox.TaskLost, Reason: v.Reason})
		case v.GiveUp:
			if err := a.end(ctx); err != nil {
				return agentbox.Result{}, err
			}
			return agentbox.Result{State: v.Cause, Reason: v.Reason}, nil
		default:
			a.show(ctx, v)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		case <-cancelled:
			if err := a.end(ctx); err != nil {
				a.Log.Warn("cannot end the job of a cancelled task", "task", a.task.ID, "error", err)
				cancelled = nil
				continue
			}
			return a.collect(ctx, agentbox.Result{State: agentbox.TaskCancelled})
		}
	}
}

// look looks at the Job and its pods, and lets go of those on nodes that nobody reaches.
func (a *attempt) look(ctx context.Context) (verdict, error) {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	job, err := a.cluster.job(ctx, a.name)
	if err != nil {
		return verdict{}, err
	}
	pods, err := a.cluster.pods(ctx, a.name)
	if err != nil {
		return verdict{}, err
	}
	v := judge(job, pods, time.Now())
	for _, pod := range v.Dead {
		if err := a.cluster.forget(ctx, pod); err != nil && agentbox.CodeOf(err) != agentbox.NotFound {
			a.Log.Warn("cannot remove a pod whose node does not answer", "pod", pod, "error", err)
		}
	}
	return v, nil
}

func (a *attempt) show(ctx context.Context, v verdict) {
	name := a.lease.Name // of a pod that has just ended
	switch {
	case v.Pod != "":
		name = a.task.Where + "/" + v.Node
	case v.Waits != "":
		name = ""
		a.waiting(v.Waits)
	}
	a.follow(ctx, v.Pod)
	if name != a.lease.Name {
		a.lease.Name, a.lease.Worker = name, name
		if name != "" {
			a.Note(a.dir, "pod", v.Pod+" on "+v.Node)
		}
		if err := a.write(); err != nil {
			a.Log.Error("cannot record where a task runs", "task", a.task.ID, "error", err)
		}
	}
}

// waiting says once what the task waits for.
func (a *attempt) waiting(why string) {
	if why != a.waits {
		a.waits = why
		a.Note(a.dir, "waits", why)
	}
}

// endTime bounds how long is waited for pods to end.
const endTime = gracePeriod + 2*deadAfter

// end removes the Job, and waits until its pods have delivered what they can.
func (a *attempt) end(ctx context.Context) error {
	if err := a.cluster.remove(ctx, a.name); err != nil {
		return err
	}
	for until := time.Now().Add(endTime); time.Now().Before(until); {
		pods, err := a.cluster.pods(ctx, a.name)
		if err == nil {
			for _, dead := range judge(&batchv1.Job{}, pods, time.Now()).Dead {
				_ = a.cluster.forget(ctx, dead) // it is asked again
			}
			if len(pods) == 0 {
				return nil
			}
		}
		if !background.Sleep(ctx, lookEvery/2) {
			return ctx.Err()
		}
	}
	return nil
}

// collect takes the result from the registry. If there is none, otherwise is how the attempt ended.
func (a *attempt) collect(ctx context.Context, otherwise agentbox.Result) (agentbox.Result, error) {
	for {
		said, err := a.receive(ctx, otherwise)
		switch code := agentbox.CodeOf(err); {
		case err == nil:
			return said, nil
		case code == agentbox.NotFound && otherwise.State != agentbox.TaskCancelled && otherwise.Reason == "":
			otherwise.Reason = "it left no result in the registry"
			return otherwise, nil
		case code == agentbox.NotFound:
			return otherwise, nil
		case code == agentbox.Corrupt:
			otherwise.Reason = "its result is refused: " + agentbox.AsError(err).Message
			return otherwise, nil
		}
		a.waiting(agentbox.AsError(err).Message) // a registry that does not answer has it still
		if !background.Sleep(ctx, 5*lookEvery) {
			return agentbox.Result{}, ctx.Err()
		}
	}
}

func (a *attempt) receive(ctx context.Context, otherwise agentbox.Result) (agentbox.Result, error) {
	in, err := oci.Open(ctx, a.result())
	if err != nil {
		return agentbox.Result{}, err
	}
	said, err := readResult(in, otherwise, a.task.Where, fleet.Most(a.Attempt, a.need))
	if err != nil {
		return said, err
	}
	a.follow(ctx, "")
	if err := a.keep(in); err != nil {
		return said, err
	}
	pack, err := in.File(oci.Pack)
	if err != nil {
		return said, err
	}
	defer pack.Close()
	return a.Accept(ctx, a.task, said, pack)
}

// readResult is what may be believed of a result that others may have written.
func readResult(in interface{ Read(v any) error }, otherwise agentbox.Result, where string, most agentbox.Consumption) (agentbox.Result, error) {
	var said agentbox.Result
	if err := in.Read(&said); err != nil {
		return said, err
	}
	if !said.State.Done() {
		return said, agentbox.Errorf(agentbox.Corrupt, "it says %q", agentbox.Clip(string(said.State)))
	}
	if said.State == agentbox.TaskLost { // the worker was interrupted: why is known here
		said.State, said.Reason = otherwise.State, otherwise.Reason
	}
	return fleet.Sanitized(said, where, most), nil
}

// keep replaces what was followed of the transcript by the whole of it.
func (a *attempt) keep(in oci.Artifact) error {
	cast, err := in.File(oci.Transcript)
	if err != nil {
		return err
	}
	defer cast.Close()
	path := filepath.Join(a.dir, transcriptFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(path + ".new")
	_, err = io.Copy(f, io.LimitReader(cast, fleet.MaxTranscript))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
