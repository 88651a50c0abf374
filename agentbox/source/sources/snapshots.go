package sources

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host/work"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
)

// Snapshots serves the calls about snapshots.
type Snapshots struct {
	layers.Snapshots
	Boxes   work.Work
	Sources Sources
	// Secrets returns the values of a project's secrets, by name.
	Secrets func(ctx context.Context, project string) (map[string]string, error)
}

func (s Snapshots) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.CreateSnapshot, s.create)
	api.Handle(mux, api.ListSnapshots, s.list)
	api.Handle(mux, api.ShowSnapshot, s.show)
	api.Handle(mux, api.DiffSnapshot, s.diff)
	api.Handle(mux, api.RemoveSnapshot, s.remove)
	api.Handle(mux, api.WriteSnapshot, s.write)
	api.Handle(mux, api.SourceOfSnapshot, s.source)
	api.Handle(mux, api.SourceOfCommit, s.ofCommit)
}

func (s Snapshots) Mirror(projectName string) string {
	of := project.Project{Name: projectName}
	return s.Boxes.Home.Mirror(of.ID())
}

func (s Snapshots) create(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Snapshot, error) {
	_, out, known, err := s.Take(ctx, ref, progress)
	answer := describeSnapshot(out)
	answer.Known = known
	return answer, err
}

func (s Snapshots) Take(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (b work.Box, out layers.StoredSnapshot, known bool, err error) {
	b, kept, of, err := s.Boxes.Snapshot(ctx, ref, progress)
	if err != nil {
		return b, out, false, err
	}
	out, known, err = s.Keep(ctx, kept, of.Name, b.Name)
	return b, out, known, err
}

// Keep makes a snapshot of what was kept, unless it has the value of a secret.
func (s Snapshots) Keep(ctx context.Context, kept snapshot.Kept, projectName, of string) (out layers.StoredSnapshot, known bool, err error) {
	d, id, err := snapshot.NewDocument(ctx, kept, projectName)
	if err != nil {
		return out, false, err
	}
	values, err := s.Secrets(ctx, projectName)
	if err != nil {
		return out, false, err
	}
	dir := s.Mirror(projectName)
	if err := d.FindSecret(ctx, dir, values); err != nil {
		return out, false, err
	}
	out, created, err := s.Put(ctx, d, id, of, WriteWork(d, dir))
	return out, !created, err
}

func WriteWork(d snapshot.Document, mirror string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error { return d.WriteWork(ctx, mirror, w) }
}

// HistoryOf returns the manifest of the pack of what a snapshot builds on, for a machine that has some
// commits; zero if it has all of it.
func (s Snapshots) HistoryOf(ctx context.Context, d snapshot.Document, there []string) (agentbox.Digest, error) {
	if d.Base == "" {
		return agentbox.Digest{}, nil
	}
	return s.History(ctx, d.Base, len(there) > 0, func(ctx context.Context, w io.Writer) error {
		return d.WriteHistory(ctx, s.Mirror(d.Project), w, there...)
	})
}

func describeSnapshot(s layers.StoredSnapshot) api.Snapshot {
	d := s.Document
	return api.Snapshot{
		ID: s.ID, Created: s.Created, Of: s.Comment, Project: d.Project, Branch: d.Branch, Base: d.Base, Head: d.Head,
		Commits: d.Commits, Files: d.Files, Bytes: s.Bytes, OtherWork: d.Others, Missing: d.Missing,
	}
}

func (s Snapshots) list(ctx context.Context, req api.TaskList, _ agentbox.Progress) ([]api.Snapshot, error) {
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	if p, err := ProjectOf(ctx, req.Directory); err == nil && !req.All {
		all = slices.DeleteFunc(all, func(one layers.StoredSnapshot) bool { return one.Document.Project != p.Name })
	}
	out := []api.Snapshot{}
	for _, one := range all {
		out = append(out, describeSnapshot(one))
	}
	return out, nil
}

func (s Snapshots) show(ctx context.Context, req api.SnapshotRef, _ agentbox.Progress) (api.SnapshotDetail, error) {
	one, kept, err := s.FindKept(ctx, req.Snapshot)
	if err != nil {
		return api.SnapshotDetail{}, err
	}
	changes, err := snapshot.Changes(ctx, kept)
	return api.SnapshotDetail{Snapshot: describeSnapshot(one), Changes: changes[:min(len(changes), 1000)]}, err
}

func (s Snapshots) FindKept(ctx context.Context, ref string) (layers.StoredSnapshot, snapshot.Kept, error) {
	one, err := s.Find(ctx, ref)
	return one, one.Document.Kept(s.Mirror(one.Document.Project)), err
}

func (s Snapshots) diff(ctx context.Context, req api.SnapshotDiff, _ agentbox.Progress) (api.WorkDiff, error) {
	one, kept, err := s.FindKept(ctx, req.Snapshot)
	if err == nil && req.From != "" {
		var from layers.StoredSnapshot
		if from, err = s.Find(ctx, req.From); err == nil && from.Document.Project != one.Document.Project {
			err = agentbox.Errorf(agentbox.Invalid, "%s and %s are snapshots of two projects", req.From, req.Snapshot)
		}
		kept.Base = from.Document.Whole
	}
	if err != nil {
		return api.WorkDiff{}, err
	}
	d, err := snapshot.Diff(ctx, kept, snapshot.DiffOptions{Stat: req.Stat, Color: req.Color, Width: req.Width})
	return api.WorkDiff{
		Name: one.ID.Short(), Base: kept.Base, Commit: kept.Whole, Commits: kept.Commits, Files: kept.Files, OtherWork: kept.Others(), Missing: kept.Missing,
		Text: d.Text, Truncated: d.Truncated, Changes: d.Files,
	}, err
}

func (s Snapshots) remove(ctx context.Context, req api.SnapshotRef, _ agentbox.Progress) (api.Snapshot, error) {
	one, err := s.Find(ctx, req.Snapshot)
	if err != nil {
		return api.Snapshot{}, err
	}
	return describeSnapshot(one), s.Discard(ctx, one.ID.Hex())
}

// Discard removes all snapshots whose IDs or keys begin with ref (layers.Snapshots.FindAll).
func (s Snapshots) Discard(ctx context.Context, ref string) error {
	all, err := s.FindAll(ctx, ref)
	for _, one := range all {
		err = errors.Join(err, one.Document.Drop(ctx, s.Mirror(one.Document.Project), one.ID))
		if err == nil {
			err = s.Remove(ctx, one)
		}
	}
	return err
}

func (s Snapshots) source(ctx context.Context, req api.SnapshotSource, _ agentbox.Progress) (api.CapturedSource, error) {
	one, err := s.Find(ctx, req.Snapshot)
	if err != nil {
		return api.CapturedSource{}, err
	}
	c, from, release, err := s.SourceOf(ctx, one.Document, req.Directory)
	if err != nil {
		return api.CapturedSource{}, err
	}
	defer release()
	return Describe(c, from), nil
}

func (s Snapshots) write(ctx context.Context, req api.SnapshotInto, _ agentbox.Progress) (api.None, error) {
	one, kept, err := s.FindKept(ctx, req.Snapshot)
	if err != nil {
		return api.None{}, err
	}
	if _, err := os.Lstat(req.Into); err == nil || !filepath.IsAbs(req.Into) {
		return api.None{}, agentbox.Errorf(agentbox.Conflict, "%s is there already", req.Into).WithHint("name a directory that does not exist")
	}
	if err := snapshot.Checkout(ctx, kept.Plain(), one.Document.Branch, req.Into, ""); err != nil {
		return api.None{}, errors.Join(err, os.RemoveAll(req.Into))
	}
	return api.None{}, nil
}

// ofCommit is api.SourceOfCommit.
func (s Snapshots) ofCommit(ctx context.Context, req api.CommitRef, _ agentbox.Progress) (api.CapturedSource, error) {
	p, err := ProjectOf(ctx, req.Directory)
	if err != nil {
		return api.CapturedSource{}, err
	}
	kept, err := snapshot.AtCommit(ctx, s.Mirror(p.Name), req.Directory, req.Commit)
	if err != nil {
		return api.CapturedSource{}, err
	}
	from := Placed(ctx, p.Name, req.Directory)
	c, release, err := s.Sources.Checkout(ctx, kept, p.Name, req.Branch, from.Directory)
	if err != nil {
		return api.CapturedSource{}, err
	}
	defer release()
	from.Digest, from.Apart = c.Digest(), true
	return Describe(c, from), nil
}

// SourceOf makes a source of a snapshot that is in the mirror, for a user in a directory. Its boxes are
// apart from those of a checkout with the same branch.
func (s Snapshots) SourceOf(ctx context.Context, d snapshot.Document, directory string) (c source.Captured, from agentbox.SourceRef, release func(), err error) {
	from = Placed(ctx, d.Project, directory)
	c, release, err = s.Sources.Checkout(ctx, d.Kept(s.Mirror(d.Project)), d.Project, d.Branch, from.Directory)
	if err != nil {
		return c, from, nil, err
	}
	from.Digest, from.Apart = c.Digest(), true
	return c, from, release, nil
}

// Placed says where a source of a project belongs: to the checkout of a directory, if that is of it.
func Placed(ctx context.Context, projectName, directory string) agentbox.SourceRef {
	from := agentbox.SourceRef{Elsewhere: true}
	if repo, err := workspace.Describe(ctx, directory); err == nil {
		if p, err := project.Identify(ctx, repo.Root); err == nil && p.Name == projectName {
			from.Directory, from.Elsewhere = repo.Root, false
		}
	}
	return from
}
