package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/artifact"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/task"
)

// Names in the directory of an attempt.
const (
	artifactsDir  = "artifacts"
	statementFile = "artifacts.dsse.json"
)

// artifacts takes the artifacts of a task's box, and answers for those that were taken.
type artifacts struct {
	jobs
	key   ed25519.PrivateKey // the host's
	tasks func() tasks
}

// artifactBound bounds what a box may send before it is chosen from.
var artifactBound = environment.Bound{Bytes: 8 << 30, Files: 500_000, Time: 5 * time.Minute}

// Collect takes what a task's configuration names. Taking it again replaces what an earlier daemon
// had begun.
func (a artifacts) Collect(ctx context.Context, box agentbox.Box, t agentbox.Task, dir string) (files int, notes []string, err error) {
	if len(t.Artifacts) == 0 {
		return 0, nil, nil
	}
	to := filepath.Join(dir, artifactsDir)
	if err := os.RemoveAll(to); err != nil {
		return 0, nil, err
	}
	found, notes, err := a.take(ctx, box, t, to)
	if err != nil {
		return len(found), notes, err
	}
	last := t.Last()
	s := artifact.NewStatement(found, artifact.Predicate{
		Created: time.Now().UTC(), Task: t.ID.String(), Attempt: last.Number, Agent: t.Agent, Command: t.Command, Repo: t.Project, Commit: box.Commit,
		Environment: artifact.Environment{Image: box.Image.String(), Isolation: string(box.Isolation)},
	})
	if !box.Cache.IsZero() {
		s.Predicate.Environment.Setup = box.Cache.String()
	}
	envelope, err := artifact.Sign(ctx, s, a.key)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, statementFile), envelope, 0o600)
	}
	return len(found), notes, err
}

// take has the box send what lies where artifacts can be, and keeps those that are meant.
func (a artifacts) take(ctx context.Context, box agentbox.Box, t agentbox.Task, to string) (files []artifact.File, notes []string, err error) {
	c, err := a.boxes.Connect(ctx, api.BoxRef{Box: box.ID.String()}, nil)
	if err != nil {
		return nil, nil, err
	}
	client, err := environment.Open(ctx, environment.Address{Name: c.Name, Socket: c.Socket, Key: c.Key, KnownHosts: c.KnownHosts}, c.User)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	root := path.Join(c.Dir, filepath.ToSlash(t.ArtifactsIn))
	what := environment.Export{Root: root, Skip: []string{path.Join(c.Dir, ".git")}, Bound: artifactBound}
	for _, prefix := range artifact.Prefixes(t.Artifacts) {
		if prefix == "." {
			what.Paths = nil
			break
		}
		what.Paths = append(what.Paths, path.Join(root, prefix))
	}
	r, w := io.Pipe()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := what.Take(gctx, client, w)
		w.CloseWithError(err)
		return err
	})
	g.Go(func() (err error) {
		files, notes, err = artifact.Collect(gctx, r, t.Artifacts, to, artifact.DefaultLimits)
		if err == nil {
			_, err = io.Copy(io.Discard, r) // the end of an archive is padded
		}
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	err = g.Wait()
	return files, notes, err
}

func (a artifacts) handle(mux *http.ServeMux) {
	api.Handle(mux, api.ListArtifacts, a.list)
}

// list gives the artifacts of an attempt, the last that has some when none is named, compared with
// their statement.
func (a artifacts) list(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (api.ArtifactReport, error) {
	id, err := a.tasks().find(ref)
	if err != nil {
		return api.ArtifactReport{}, err
	}
	t, err := a.tasks().queue.Store.Read(id)
	if err != nil {
		return api.ArtifactReport{}, err
	}
	for n := len(t.Attempts); n > 0; n-- {
		report, err := a.report(ctx, t, a.tasks().queue.Store, n)
		if !errors.Is(err, fs.ErrNotExist) {
			return report, err
		}
	}
	return api.ArtifactReport{}, agentbox.Errorf(agentbox.NotFound, "task %s has no artifacts", id).
		WithHint("artifacts: in the configuration names those that are kept when a task ends")
}

func (a artifacts) report(ctx context.Context, t agentbox.Task, store task.Store, n int) (api.ArtifactReport, error) {
	dir := store.Attempt(t.ID, n)
	f, err := os.Open(filepath.Join(dir, statementFile))
	if err != nil {
		return api.ArtifactReport{}, err
	}
	defer f.Close()
	s, err := artifact.Open(ctx, f, a.key.Public().(ed25519.PublicKey))
	if err != nil {
		return api.ArtifactReport{}, err
	}
	if s.Predicate.Task != t.ID.String() || s.Predicate.Attempt != n {
		return api.ArtifactReport{}, agentbox.Errorf(agentbox.Corrupt, "the statement of the artifacts is about attempt %d of %.80q", s.Predicate.Attempt, s.Predicate.Task)
	}
	report := api.ArtifactReport{Task: t.ID, Attempt: n, Directory: filepath.Join(dir, artifactsDir), Statement: filepath.Join(dir, statementFile)}
	checked, err := artifact.Check(s, report.Directory)
	for _, c := range checked {
		report.Files = append(report.Files, api.Artifact{Name: c.Name, Size: c.Size, SHA256: c.SHA256, State: c.State})
	}
	return report, err
}
