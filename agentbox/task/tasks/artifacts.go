package tasks

import (
	"bytes"
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

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/artifact"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/job/jobs"
	"agentbox/agentbox/task"
)

// Names in the directory of an attempt. See package task.
const (
	artifactsDir  = "artifacts"
	statementFile = "artifacts.dsse.json"
)

// Artifacts collects the artifacts of a task's box and serves those that were collected. It
// implements task.Collector.
type Artifacts struct {
	jobs.Jobs
	Key   ed25519.PrivateKey // the host's
	Store task.Store
}

// Bounds on what a box may send before we choose from it. Globs are matched here, so a box sends
// whole directories. The figures allow for what a legitimate build may leave. A box that sends more
// gets no artifacts, and the task says so.
var (
	artifactLimits = environment.Limits{
		Bytes: 8 << 30, Files: 500_000, Time: 5 * time.Minute, File: artifact.DefaultLimits.Bytes,
		Of: "what is in the directories of artifacts", Hint: "name directories with less in `artifacts:`",
	}
	lockfileLimits = environment.Limits{Bytes: 512 << 20, Files: 10_000, Time: time.Minute, Of: "what lockfiles: names", Hint: "name files in `lockfiles:`"}
)

// Collect collects the files that a task's configuration names. dir is the attempt's directory.
// Collecting again replaces what an earlier daemon had begun.
//
// The files are written first and the statement last. Without a statement there are no artifacts,
// so a daemon that is killed in between leaves none without a statement. Lost in the result means
// that files were left out, so that the box may be kept.
func (a Artifacts) Collect(ctx context.Context, box agentbox.Box, t agentbox.Task, work task.Kept, dir string) (artifact.Collected, error) {
	if len(t.Artifacts) == 0 {
		return artifact.Collected{}, nil
	}
	to := filepath.Join(dir, artifactsDir)
	// An earlier daemon may have left some of them. The statement is removed first, so that no
	// statement remains for files that are gone.
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, statementFile)), os.RemoveAll(to)); err != nil {
		return artifact.Collected{}, err
	}
	g, err := a.gather(ctx, box, t)
	if err != nil {
		return artifact.Collected{}, err
	}
	defer g.Close()
	got, err := g.artifacts(ctx, to)
	if err != nil {
		return got, err
	}
	// Last, because the artifacts matter more.
	lockfiles, err := g.lockfiles(ctx)
	if err != nil { // not fatal: the artifacts are here
		got.Notes = append(got.Notes, "the statement is without lockfiles: "+agentbox.AsError(err).Message)
	}
	envelope, err := artifact.Sign(ctx, artifact.NewStatement(got.Files, predicate(box, t, work, lockfiles)), a.Key)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, statementFile), envelope, 0o600)
	}
	return got, err
}

// predicate returns the origin of artifacts for their statement: the commit that the box started
// from, the work as it was kept, and the image and setup result that the box was made of.
func predicate(box agentbox.Box, t agentbox.Task, work task.Kept, lockfiles map[string]string) artifact.Predicate {
	p := artifact.Predicate{
		Created: time.Now().UTC(), Task: t.ID.String(), Attempt: t.Last().Number, Agent: t.Agent, Command: t.Command, Repo: t.Project, Commit: box.Commit, Work: work.Ref,
		Environment: artifact.Environment{Image: box.Image.String(), Isolation: string(box.Isolation), Lockfiles: lockfiles},
	}
	// Work that could not be kept has no commit to name.
	if work.Ref != "" {
		p.Environment.Snapshot = work.Commit
	}
	if !box.Cache.IsZero() {
		p.Environment.Setup = box.Cache.String()
	}
	return p
}

// gatherer fetches files of a task's box over one connection. It never includes the git directory,
// because commits are kept as refs.
type gatherer struct {
	*ssh.Client
	task agentbox.Task
	root string // directory in the box to which the task's names are relative
	skip []string
}

// gather wakes a box and connects to it to fetch files. The caller closes the gatherer. Names of
// Artifacts are relative to the directory of the configuration, which may be below the top of the
// repository.
func (a Artifacts) gather(ctx context.Context, box agentbox.Box, t agentbox.Task) (*gatherer, error) {
	c, err := a.Boxes.Connect(ctx, api.BoxRef{Box: box.ID.String()}, nil)
	if err != nil {
		return nil, err
	}
	client, err := environment.Open(ctx, a.Address(c), c.User)
	return &gatherer{client, t, path.Join(c.Dir, filepath.ToSlash(t.ArtifactsIn)), []string{path.Join(c.Dir, ".git")}}, err
}

// Artifacts makes the box send the directories that can contain artifacts, and keeps the files that
// match. Only what lies below the fixed prefixes of the globs is sent, or all of the root if one of
// them has no such prefix.
func (g *gatherer) artifacts(ctx context.Context, to string) (got artifact.Collected, err error) {
	var below []string
	for _, prefix := range artifact.Prefixes(g.task.Artifacts) {
		if prefix == "." {
			below = nil
			break
		}
		below = append(below, path.Join(g.root, prefix))
	}
	err = g.fetch(ctx, below, artifactLimits, func(ctx context.Context, r io.Reader) (err error) {
		got, err = artifact.Collect(ctx, r, g.task.Artifacts, to, artifact.DefaultLimits)
		return err
	})
	return got, err
}

// lockfiles are the digests of the box's lockfiles: what the work depended on at the end.
func (g *gatherer) lockfiles(ctx context.Context) (found map[string]string, err error) {
	if len(g.task.Lockfiles) == 0 {
		return nil, nil
	}
	var paths []string
	for _, name := range g.task.Lockfiles {
		paths = append(paths, path.Join(g.root, name))
	}
	err = g.fetch(ctx, paths, lockfileLimits, func(ctx context.Context, r io.Reader) (err error) {
		found, err = artifact.Digests(ctx, r, g.task.Lockfiles)
		return err
	})
	return found, err
}

// fetch streams an archive of the paths to to, or of the whole root if there are none. It holds
// nothing in memory and writes nothing to disk, so the size is limited only by bound and by what to
// does with it. If either side fails, so does the other.
func (g *gatherer) fetch(ctx context.Context, paths []string, bound environment.Limits, to func(context.Context, io.Reader) error) error {
	what := environment.Export{Root: g.root, Skip: g.skip, Paths: paths, Limits: bound}
	return background.Pipe(ctx, func(ctx context.Context, w io.Writer) error {
		return what.Receive(ctx, g.Client, w)
	}, func(ctx context.Context, r io.Reader) error {
		err := to(ctx, r)
		if err == nil {
			_, err = io.Copy(io.Discard, r) // the end of an archive is padded
		}
		return err
	})
}

func (a Artifacts) Handle(mux *http.ServeMux) {
	api.Handle(mux, api.ListArtifacts, a.list)
	api.HandleDownload(mux, api.ReadArtifact, a.read)
}

// list returns the artifacts of an attempt, compared with their statement. If none is named, it is
// the last attempt that has artifacts.
func (a Artifacts) list(ctx context.Context, ref api.TaskRef, _ agentbox.Progress) (api.ArtifactReport, error) {
	id, err := findTask(a.Store, ref)
	if err != nil {
		return api.ArtifactReport{}, err
	}
	t, err := a.Store.Read(id)
	if err != nil {
		return api.ArtifactReport{}, err
	}
	// The last attempt that has artifacts, because a later one may have failed before it made any.
	for n := len(t.Attempts); n > 0; n-- {
		report, err := a.report(ctx, t, n)
		if !errors.Is(err, fs.ErrNotExist) {
			return report, err
		}
	}
	return api.ArtifactReport{}, agentbox.Errorf(agentbox.NotFound, "task %s has no artifacts", id).
		WithHint("artifacts: in the configuration names those that are kept when a task ends")
}

// read writes one artifact. A box chose its name, so it is looked up in a root that no name leaves.
func (a Artifacts) read(_ context.Context, ref api.ArtifactRef, w io.Writer) error {
	id, err := findTask(a.Store, api.TaskRef{Task: ref.Task.String()})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(a.Store.Attempt(id, ref.Attempt), artifactsDir))
	if err != nil {
		return agentbox.Errorf(agentbox.NotFound, "attempt %d of task %s has no artifacts", ref.Attempt, id)
	}
	defer root.Close()
	f, err := root.Open(ref.Name)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "artifact %s: %w", ref.Name, err)
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// report verifies the statement of attempt n with this host's own key, and hashes each file to
// compare it with the statement. The error satisfies fs.ErrNotExist if the attempt has no
// statement. A signed statement about another attempt was moved there, and is Corrupt.
func (a Artifacts) report(ctx context.Context, t agentbox.Task, n int) (api.ArtifactReport, error) {
	dir := a.Store.Attempt(t.ID, n)
	envelope, err := os.ReadFile(filepath.Join(dir, statementFile))
	if err != nil {
		return api.ArtifactReport{}, err
	}
	s, err := artifact.Open(ctx, bytes.NewReader(envelope), a.Key.Public().(ed25519.PublicKey))
	if err != nil {
		return api.ArtifactReport{}, err
	}
	// The signature proves that this host wrote it, but not that it is about these files.
	if s.Predicate.Task != t.ID.String() || s.Predicate.Attempt != n {
		return api.ArtifactReport{}, agentbox.Errorf(agentbox.Corrupt, "the statement of the artifacts is about attempt %d of %.80q", s.Predicate.Attempt, s.Predicate.Task)
	}
	report := api.ArtifactReport{Task: t.ID, Attempt: n, Statement: envelope}
	checked, err := artifact.Check(s, filepath.Join(dir, artifactsDir))
	for _, c := range checked {
		report.Files = append(report.Files, api.Artifact{Name: c.Name, Size: c.Size, SHA256: c.SHA256, State: c.State})
	}
	return report, err
}
