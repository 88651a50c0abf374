package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/home"
	"agentbox/agentbox/layers"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/workspace"
)

// Saves takes snapshots of tasks while they run, and has them go on from one (task.Saver). Those of
// tasks that other machines run come from there.
type Saves struct {
	Home      home.Home
	Log       *slog.Logger
	Snapshots sources.Snapshots
}

// saveEveryEnv sets how often snapshots are taken, as a duration; 0 for never.
const saveEveryEnv = "AGENTBOX_SAVE_EVERY"

// SaveEvery is how often a snapshot of a running task is taken.
func SaveEvery() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(saveEveryEnv)); err == nil {
		return d
	}
	return 5 * time.Minute
}

// savedName is what a snapshot of a task is called in `snapshot ls`.
func savedName(id agentbox.TaskID) string { return "task " + id.String() }

// Save takes a snapshot of a running box.
func (s Saves) Save(ctx context.Context, box agentbox.Box, t agentbox.Task) (agentbox.SavedWork, error) {
	all := s.Snapshots
	if t.For != nil { // its box has none of ours
		all.Secrets = func(context.Context, string) (map[string]string, error) { return nil, nil }
	}
	_, kept, of, err := all.Boxes.Snapshot(ctx, api.BoxRef{Box: box.ID.String()}, nil)
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	at := time.Now().UTC()
	kept.Holder = holder(t.ID, at)
	out, _, err := all.Keep(ctx, kept, of.Name, savedName(t.ID))
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	if last := t.Last(); last != nil {
		s.Drop(ctx, *last)
	}
	return savedWork(out, at), nil
}

// holder is that of one snapshot of a task. Another task, a later snapshot or the user may have the same
// one, and keeps it however they come and go.
func holder(id agentbox.TaskID, at time.Time) string {
	return id.String() + "-" + strconv.FormatInt(at.UnixNano(), 36)
}

// heldBy is the inverse of holder; false for who is no task.
func heldBy(holder string) (id agentbox.TaskID, at time.Time, ok bool) {
	i := max(0, strings.LastIndexByte(holder, '-'))
	id, err := agentbox.ParseTaskID(holder[:i])
	nanoseconds, timeErr := strconv.ParseInt(strings.TrimPrefix(holder[i:], "-"), 36, 64)
	return id, time.Unix(0, nanoseconds).UTC(), err == nil && timeErr == nil
}

func savedWork(out layers.StoredSnapshot, at time.Time) agentbox.SavedWork {
	return agentbox.SavedWork{Time: at, Snapshot: out.ID, Commits: out.Document.Commits, Files: out.Document.Files}
}

// Drop drops the snapshot of an attempt.
func (s Saves) Drop(ctx context.Context, a agentbox.Attempt) {
	if a.Saved == nil {
		return
	}
	held := snapshot.Document{Holder: holder(taskOf(a), a.Saved.Time)}
	if err := s.Snapshots.Discard(ctx, held.Key(a.Saved.Snapshot)); err != nil && agentbox.CodeOf(err) != agentbox.NotFound {
		s.Log.Warn("cannot remove the snapshot of a task", "snapshot", a.Saved.Snapshot.Short(), "error", err)
	}
}

// Sweep drops the snapshots that earlier daemons were killed with: no attempt records them, or one does
// that has other work as its result. Of some, only the refs or the pack had come to be. What was taken
// since began, this daemon records or drops itself.
func (s Saves) Sweep(ctx context.Context, store task.Store, began time.Time) error {
	left := func(key string) bool { return isLeft(store, key, began) }
	keys, err := s.Snapshots.Held(ctx)
	for _, key := range keys {
		if left(key) {
			err = errors.Join(err, s.discard(ctx, key))
		}
	}
	mirrors, globErr := filepath.Glob(filepath.Join(s.Home.Mirrors(), "*.git"))
	err = errors.Join(err, globErr)
	for _, dir := range mirrors {
		keys, readErr := snapshot.HeldKeys(ctx, dir)
		err = errors.Join(err, readErr)
		for _, key := range keys {
			if left(key) {
				err = errors.Join(err, snapshot.DropKey(ctx, dir, key))
			}
		}
	}
	return err
}

// isLeft tells whether a key is that of a snapshot of a task, of before a moment, which no attempt needs.
func isLeft(store task.Store, key string, began time.Time) bool {
	_, holder, _ := strings.Cut(key, "@")
	id, at, ok := heldBy(holder)
	if !ok || !at.Before(began) {
		return false
	}
	t, err := store.Read(id)
	if err != nil {
		return agentbox.CodeOf(err) == agentbox.NotFound // of others, nobody can say what they record
	}
	return !slices.ContainsFunc(t.Attempts, func(a agentbox.Attempt) bool { return needs(a, at) })
}

// discard removes a snapshot, or the pack of one that never came to be.
func (s Saves) discard(ctx context.Context, key string) error {
	err := s.Snapshots.Discard(ctx, key)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		err = s.Snapshots.Forget(ctx, key)
	}
	return err
}

// needs tells whether an attempt goes on from the snapshot of a moment, or has no other work.
func needs(a agentbox.Attempt, at time.Time) bool {
	return a.Saved != nil && a.Saved.Time.Equal(at) && (a.Result == nil || a.Result.Ref == "" && a.Result.State != agentbox.TaskSucceeded)
}

func taskOf(a agentbox.Attempt) (id agentbox.TaskID) {
	suffix := "-" + strconv.Itoa(a.Number)
	id, _ = agentbox.ParseTaskID(a.BoxName[:max(0, len(a.BoxName)-len(suffix))])
	return id
}

// Continue makes a source of what an attempt left, or of its last snapshot.
func (s Saves) Continue(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (*agentbox.SourceRef, func(), error) {
	none := func() {}
	var kept snapshot.Kept
	branch := ""
	switch {
	case t.Source == nil:
		return nil, none, nil // its boxes are made from the checkout as it is
	case a.Result != nil && a.Result.Ref != "":
		repo, err := workspace.Describe(ctx, s.Home.SourceTree(t.Source.Digest))
		if err != nil {
			return nil, none, err
		}
		kept, branch = workOf(s.Home, t, *a.Result), repo.Branch
	case a.Saved != nil:
		all := s.Snapshots
		_, found, err := all.FindKept(ctx, a.Saved.Snapshot.Hex())
		if err != nil {
			return nil, none, err
		}
		kept, branch = found, found.Branch
	default:
		return nil, none, nil
	}
	c, release, err := s.Snapshots.Sources.Checkout(ctx, kept, t.Project, branch, s.Home.SourceTree(t.Source.Digest))
	if err != nil {
		return nil, none, err
	}
	ref := *t.Source
	ref.Digest = c.Digest()
	return &ref, release, nil
}

// Adopt makes the last snapshot of an attempt its work.
func (s Saves) Adopt(ctx context.Context, t agentbox.Task, a agentbox.Attempt, result *agentbox.Result) error {
	if t.Source == nil {
		return nil
	}
	kept, err := s.Work(ctx, t, a)
	if err != nil || kept.Nothing() {
		return err
	}
	files := kept.Files
	if kept, err = snapshot.Adopt(ctx, kept, workRef(t), exportTo(t)); err != nil {
		return err
	}
	result.Ref, result.Commit, result.Base, result.Commits, result.Files, result.Unexported = kept.Ref, kept.Commit, kept.Base, kept.Commits, files, kept.Unexported
	if files > 0 && result.Commits > 0 {
		result.Commits-- // the one that has them
	}
	changes, err := snapshot.Changes(ctx, kept)
	result.Changes = changes[:min(len(changes), maxChanges)]
	return err
}

// Work is that of an attempt's last snapshot, without what was uncommitted at the submission.
func (s Saves) Work(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (snapshot.Kept, error) {
	all := s.Snapshots
	_, kept, err := all.FindKept(ctx, a.Saved.Snapshot.Hex())
	if err != nil {
		return kept, err
	}
	repo, err := workspace.Describe(ctx, s.Home.SourceTree(t.Source.Digest))
	if err != nil {
		return kept, err
	}
	kept.Ref = workRef(t)
	return snapshot.Separate(ctx, kept, repo.Root, repo.Commit)
}

// workRef is where the work of a task's last attempt is kept. That of an earlier one stays.
func workRef(t agentbox.Task) string {
	name := t.ID.String()
	if n := len(t.Attempts); n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return snapshot.TaskRef(name)
}

// exportTo is the checkout that gets the work of a task, "" for none.
func exportTo(t agentbox.Task) string {
	if t.Source.Elsewhere {
		return ""
	}
	return t.Directory
}

// Accept takes a snapshot that a worker sends (fleet.Owner). Only what it calls by our own commits, and
// git has checked, is believed.
func (s Saves) Accept(ctx context.Context, t agentbox.Task, document []byte, pack io.Reader) (agentbox.SavedWork, error) {
	d, err := snapshot.ParseDocument(document)
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	repo, err := workspace.Describe(ctx, s.Home.SourceTree(t.Source.Digest))
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	at := time.Now().UTC()
	d.Project, d.Holder = t.Project, holder(t.ID, at)
	mirror := s.Home.Mirror(project.Project{Name: t.Project}.ID())
	if err := d.ReceiveOver(ctx, mirror, repo, pack); err != nil {
		return agentbox.SavedWork{}, err
	}
	id, err := d.ID()
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	out, _, err := s.Snapshots.Put(ctx, d, id, savedName(t.ID), sources.WriteWork(d, mirror))
	if err != nil {
		return agentbox.SavedWork{}, err
	}
	return savedWork(out, at), nil
}

// Open is the last snapshot of a task that runs here, for its owner.
func (s Saves) Open(ctx context.Context, t agentbox.Task) (document []byte, pack func(context.Context, io.Writer) error, err error) {
	last := t.Last()
	if last == nil || last.Saved == nil {
		return nil, nil, agentbox.Errorf(agentbox.NotFound, "there is no snapshot of task %s", t.ID)
	}
	all := s.Snapshots
	one, err := all.Find(ctx, last.Saved.Snapshot.Hex())
	if err != nil {
		return nil, nil, err
	}
	document, err = json.Marshal(one.Document)
	return document, func(ctx context.Context, w io.Writer) error {
		return one.Document.WriteWork(ctx, all.Mirror(one.Document.Project), w)
	}, err
}

// AcceptResult completes what a worker says of an attempt: the work becomes that of the task here, what
// changed is read from it, and the price is by the rates of this machine.
func (s Saves) AcceptResult(ctx context.Context, t agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error) {
	if rates, err := cost.Load(s.Home.Rates()); err == nil && rates != nil && said.Used != nil {
		c := rates.Cost(*said.Used)
		said.Cost = &c
	}
	if said.Ref == "" {
		said.Commit, said.Base, said.Commits, said.Files = "", "", 0, 0
		return said, nil
	}
	repo, err := workspace.Describe(ctx, s.Home.SourceTree(t.Source.Digest))
	if err != nil {
		return said, err
	}
	mirror := s.Home.Mirror(project.Project{Name: t.Project}.ID())
	kept, err := snapshot.Receive(ctx, mirror, repo, snapshot.Kept{Commit: said.Commit, Base: repo.Commit}, pack)
	if err != nil {
		return said, err
	}
	if kept, err = snapshot.Adopt(ctx, kept, workRef(t), exportTo(t)); err != nil {
		return said, err
	}
	said.Ref, said.Base, said.Commits, said.Unexported = kept.Ref, repo.Commit, kept.Commits, kept.Unexported
	if said.Files > 0 && said.Commits > 0 {
		said.Commits-- // the one that has them
	}
	changes, err := snapshot.Changes(ctx, kept)
	if err != nil {
		said.Notes = append(said.Notes, agentbox.AsError(err).Message)
	}
	said.Changes = changes[:min(len(changes), maxChanges)]
	return said, nil
}
