package tasks

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/job"
	"agentbox/agentbox/source/sources"
)

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
