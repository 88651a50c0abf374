package tasks

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/workspace"
)

// Work shows the work of boxes and tasks, and brings it into checkouts. Once a task's box is
// gone, its work is in the mirror of its project; until then taskWork asks the box. A name means
// both a box and a task only if a user named a box after a task's id. Then it means the task.
type Work struct {
	Tasks Tasks
	Boxes work.Work
}

func (w Work) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.Diff, w.diff)
	api.Handle(mux, api.Pull, w.pull)
	api.Handle(mux, api.CheckWork, w.check)
	api.Handle(mux, api.SourceOfTask, w.source)
	api.HandleDownload(mux, api.SendWork, w.send)
	api.HandleStream(mux, api.ReceiveWork, func(ctx context.Context, _ agentbox.Digest, in io.Reader, out io.Writer) error {
		return w.receive(ctx, in, out)
	})
}

// source makes a source of what a task left. Its branch is called as pull would call it.
func (w Work) source(ctx context.Context, req api.TaskSourceRequest, _ agentbox.Progress) (api.CapturedSource, error) {
	id, err := w.Tasks.Find(req.TaskRef)
	if err != nil {
		return api.CapturedSource{}, err
	}
	one, err := w.Tasks.Queue.Store.Read(id)
	if err != nil {
		return api.CapturedSource{}, err
	}
	ref := api.BoxRef{Box: id.String()}
	kept, err := w.Left(ctx, &ref)
	if err == nil && kept == nil {
		err = agentbox.Errorf(agentbox.Conflict, "the work of task %s is in box %s", id, ref.Box).WithHint("agentbox fork %s makes another one like it", ref.Box)
	}
	if err != nil {
		return api.CapturedSource{}, err
	}
	author := one.Directory
	if one.Source != nil {
		author = w.Tasks.Evidence.Home.SourceTree(one.Source.Digest)
	}
	c, release, err := w.Tasks.Sources.Checkout(ctx, *kept, one.Project, "agentbox/"+id.String(), author)
	if err != nil {
		return api.CapturedSource{}, err
	}
	defer release()
	from := sources.Placed(ctx, one.Project, req.Directory)
	from.Digest = c.Digest()
	return sources.Describe(c, from), nil
}

// diff shows what changed since a box or task started; of a task whose box is gone by the mirror.
func (w Work) diff(ctx context.Context, req api.DiffRequest, progress agentbox.Progress) (api.WorkDiff, error) {
	kept, err := w.Find(ctx, &req.BoxRef)
	if err != nil {
		return api.WorkDiff{}, err
	}
	if kept == nil {
		return w.Boxes.Diff(ctx, req, progress)
	}
	d, err := snapshot.Diff(ctx, *kept, snapshot.DiffOptions{Stat: req.Stat, Color: req.Color, Width: req.Width})
	return api.WorkDiff{
		Name: req.Box, Base: kept.Base, Commit: kept.Commit, Commits: kept.Commits, Files: kept.Files, OtherWork: kept.Others(), Notes: kept.Notes, Text: d.Text, Truncated: d.Truncated, Changes: d.Files,
	}, err
}

func (w Work) pull(ctx context.Context, req api.PullRequest, progress agentbox.Progress) (api.PulledWork, error) {
	// Check the checkout before anything is brought into it.
	repo, err := workspace.Describe(ctx, req.Into)
	if err != nil {
		return api.PulledWork{}, err
	}
	out, kept, err := w.keep(ctx, req.BoxRef, progress)
	if err != nil {
		return api.PulledWork{}, err
	}
	return work.Pull(ctx, out, kept, repo, req.Branch)
}

// keep makes sure that the work of a box or task is in the mirror of its project.
func (w Work) keep(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.PulledWork, snapshot.Kept, error) {
	kept, err := w.Find(ctx, &ref)
	switch {
	case err != nil:
		return api.PulledWork{}, snapshot.Kept{}, err
	case kept == nil:
		return w.Boxes.Offer(ctx, ref, progress)
	}
	return api.PulledWork{Name: ref.Box, Commit: kept.Commit, Base: kept.Base, Commits: kept.Commits, Files: kept.Files, OtherWork: kept.Others(), Notes: kept.Notes}, *kept, nil
}

// send is pull for a checkout elsewhere: it writes what is brought, and its commits (api.SendWork).
func (w Work) send(ctx context.Context, ref api.BoxRef, to io.Writer) error {
	out, kept, err := w.keep(ctx, ref, nil)
	if err == nil {
		err = json.NewEncoder(to).Encode(out)
	}
	if err != nil {
		return err
	}
	return snapshot.Send(ctx, kept, to)
}

// receive brings what another machine sent into a checkout here (api.ReceiveWork).
func (w Work) receive(ctx context.Context, in io.Reader, to io.Writer) error {
	r := bufio.NewReader(in)
	req, err := readLine[api.PullRequest](r)
	if err != nil {
		return err
	}
	repo, err := workspace.Describe(ctx, req.Into)
	if err != nil {
		return err
	}
	p, err := project.Identify(ctx, repo.Root)
	if err != nil {
		return err
	}
	out, err := readWork(r)
	if err != nil {
		return err
	}
	kept := snapshot.Rebuild("", snapshot.Kept{Commit: out.Commit, Base: out.Base}, out.OtherWork)
	if kept, err = snapshot.Receive(ctx, w.Tasks.Evidence.Home.Mirror(p.ID()), repo, kept, r); err != nil {
		return err
	}
	if out, err = work.Pull(ctx, out, kept, repo, req.Branch); err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(out)
}

// readWork reads what another machine says of work. Its words are shown, so they are made printable.
func readWork(r *bufio.Reader) (api.PulledWork, error) {
	out, err := readLine[api.PulledWork](r)
	if err != nil {
		return out, err
	}
	if _, err := agentbox.ParseTaskID(out.Name); err != nil && out.Box == (agentbox.BoxID{}) {
		return out, agentbox.Errorf(agentbox.Corrupt, "the other machine sent the work of no box and no task")
	}
	out.Name = agentbox.Printable(out.Name)
	for i := range out.OtherWork {
		o := &out.OtherWork[i]
		o.Name, o.Path, o.Ref, o.Branch = agentbox.Printable(o.Name), agentbox.Printable(o.Path), "", ""
	}
	return out, nil
}

// maxWork bounds what is said of work, in bytes.
const maxWork = 16 << 20

func readLine[T any](r *bufio.Reader) (v T, err error) {
	line, err := bounded.ReadLine(r, maxWork)
	if err == nil {
		err = json.Unmarshal(line, &v)
	}
	if err != nil {
		return v, agentbox.Errorf(agentbox.Corrupt, "the other machine did not send its work: %w", err)
	}
	return v, nil
}

// Find returns the work of the task that ref means. If a box has to be asked instead, it returns
// nil and sets ref to that box. It returns Conflict for a task that has not started, and NotFound
// for one that left no work.
func (w Work) Find(ctx context.Context, ref *api.BoxRef) (*snapshot.Kept, error) {
	id, err := agentbox.ParseTaskID(ref.Box)
	if err != nil {
		return nil, nil
	}
	one, err := w.Tasks.Queue.Store.Read(id)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil, nil // a box may have this name
	}
	if err != nil {
		return nil, err
	}
	last := one.Last()
	switch {
	// The work may not exist yet, be in the task's box, be in a box that was kept because the work
	// could not be, or be in the mirror.
	case last == nil:
		return nil, agentbox.Errorf(agentbox.Conflict, "task %s has not begun", id).WithHint("agentbox task ls says what it waits for")
	case last.Result == nil && one.Where != "":
		return w.Tasks.Elsewhere.WorkSoFar(ctx, one, *last)
	case last.Result == nil:
		// The task's box still exists and is asked like any other.
		ref.Box = last.BoxName
		return nil, nil
	case last.Result.Box != "":
		// The work could not be kept, so the box was.
		ref.Box = last.Result.Box
		return nil, nil
	case last.Result.Ref == "":
		return nil, agentbox.Errorf(agentbox.NotFound, "nothing was done in task %s", id)
	}
	kept := workOf(w.Tasks.Evidence.Home, one, *last.Result)
	return &kept, nil
}

func (w Work) Left(ctx context.Context, ref *api.BoxRef) (*snapshot.Kept, error) {
	kept, err := w.Find(ctx, ref)
	if agentbox.CodeOf(err) != agentbox.NotFound {
		return kept, err
	}
	id, _ := agentbox.ParseTaskID(ref.Box) // else find finds nothing
	one, readErr := w.Tasks.Queue.Store.Read(id)
	if readErr != nil || one.Source == nil || one.Last() == nil || one.Last().Result == nil {
		return nil, err
	}
	of, h := project.Project{Name: one.Project}, w.Tasks.Evidence.Home
	begun, err := snapshot.Beginning(ctx, h.Mirror(of.ID()), h.SourceTree(one.Source.Digest), workRef(one))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.NotFound, "nothing was done in task %s, and what it began with is gone: %w", id, err).WithHint("agentbox task retry %s runs it again; agentbox up makes a box of the checkout as it is now", id)
	}
	return &begun, nil
}

// workOf is the work of a result, in the mirror of its project.
func workOf(h home.Home, one agentbox.Task, r agentbox.Result) snapshot.Kept {
	of := project.Project{Name: one.Project}
	return snapshot.Rebuild(h.Mirror(of.ID()), snapshot.Kept{Ref: r.Ref, Commit: r.Commit, Base: r.Base, Commits: r.Commits, Files: r.Files, Notes: r.Notes}, r.OtherWork)
}
