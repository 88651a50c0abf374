package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/artifact"
)

// maxKeepAttempts is how often the queue tries to keep the work of a box before it leaves the box
// to a person. Between two tries it stops the machine, which frees what a command that still ran
// had filled.
const maxKeepAttempts = 3

// startGathering collects the evidence about a box while its work is kept, and returns a function
// that waits for it, which may be called more than once. The goroutine ends with ctx at the latest.
// Without a source the evidence is empty.
func (r *run) startGathering(ctx context.Context, box agentbox.Box) (evidence func() Evidence) {
	result := make(chan Evidence, 1)
	go func() {
		var t Evidence
		var err error
		if r.q.Evidence != nil {
			t, err = r.q.Evidence.Gather(ctx, box, r.dir)
		}
		if err != nil && ctx.Err() == nil {
			r.q.Log.Warn("a task's result is incomplete", "task", r.rec.ID, "error", err)
		}
		result <- t
	}()
	return sync.OnceValue(func() Evidence { return <-result })
}

// copyTo copies the evidence into the result.
func (e Evidence) copyTo(r *agentbox.Result) {
	r.Used, r.Cost, r.Denied, r.Pressure, r.Services = e.Used, e.Cost, e.Denied, e.Pressure, e.Services
}

// keepWork makes sure that no work is lost with the box: it is kept elsewhere, there is none, or
// the box stays. It ends the machine only once there is all evidence about it. result gets what is
// known of the work, and Box if the box has to stay. When ctx has ended the result means nothing.
func (r *run) keepWork(ctx context.Context, box agentbox.Box, result *agentbox.Result, evidence func() Evidence) Kept {
	begun := time.Now()
	if t, err := r.q.Store.Read(r.rec.ID); err == nil && r.checks() {
		r.q.Checker.Load(t)
	}
	kept, err := r.snapshotWork(ctx, box, evidence)
	if ctx.Err() != nil {
		return kept
	}
	result.Commits, result.Files, result.Changes, result.OtherWork, result.Notes = kept.Commits, kept.Files, kept.Changes, kept.Others, kept.Notes
	if err != nil {
		kept.Missing = []string{agentbox.AsError(err).Message}
	} else if !kept.Nothing {
		result.Ref, result.Commit, result.Base, result.Unexported = kept.Ref, kept.Commit, cmp.Or(kept.Base, box.Commit), kept.Unexported
	}
	if result.Missing = kept.Missing; len(kept.Missing) > 0 { // the box is the only place that has all of it
		result.Box = r.BoxName
	}
	work := result.WorkText()
	if kept.Unlisted != "" {
		work += "; " + kept.Unlisted
	}
	r.timeline.addTimed("work", work, time.Since(begun))
	return kept
}

// collect takes the artifacts of a box. If some cannot be taken the box stays, as it has them.
func (r *run) collect(ctx context.Context, box agentbox.Box, work Kept, result *agentbox.Result) {
	if r.q.Collector == nil || len(r.rec.Artifacts) == 0 || r.rec.For != nil || ctx.Err() != nil { // its owner gets none
		return
	}
	begun := time.Now()
	var got artifact.Collected
	t, err := r.q.Store.Read(r.rec.ID)
	if err == nil {
		got, err = r.q.Collector.Collect(ctx, box, t, work, r.dir)
	}
	if ctx.Err() != nil {
		return
	}
	result.Artifacts = len(got.Files)
	notes := append([]string{agentbox.Plural(len(got.Files), "file")}, got.Notes...)
	if err != nil {
		notes = append(notes, agentbox.AsError(err).Message)
	}
	if err != nil || got.Lost > 0 {
		result.Box, result.Uncollected = r.BoxName, true
		notes = append(notes, "what is missing is in box "+r.BoxName)
	}
	r.timeline.addTimed("artifacts", strings.Join(notes, "; "), time.Since(begun))
}

// checks reports whether the task's work is checked here. Another member's is checked by its owner.
func (r *run) checks() bool { return r.q.Checker != nil && len(r.rec.Checks) > 0 && r.rec.For == nil }

// check runs the task's checks over its work, if there is any.
func (r *run) check(ctx context.Context, work Kept, result *agentbox.Result) {
	if !r.checks() || result.Commit == "" || ctx.Err() != nil {
		return
	}
	begun := time.Now()
	t, err := r.q.Store.Read(r.rec.ID)
	if err != nil {
		r.q.Log.Warn("cannot check the result of a task", "task", r.rec.ID, "error", err)
		return
	}
	result.Checks = r.q.Checker.Check(ctx, t, work)
	passed := 0
	for _, c := range result.Checks {
		if c.Passed() {
			passed++
		}
	}
	r.timeline.addTimed("checks", fmt.Sprintf("%d of %d passed", passed, len(result.Checks)), time.Since(begun))
}

// stopKeptBox stops a box that stays, so that it takes no memory while it waits for a person. A
// failure is only logged.
func (r *run) stopKeptBox(ctx context.Context, result agentbox.Result) {
	if result.Box == "" || ctx.Err() != nil {
		return
	}
	if err := r.q.Boxes.Stop(ctx, r.ref()); err != nil {
		r.q.Log.Warn("cannot stop the box of a task that has ended", "box", r.BoxName, "error", err)
	}
}

// snapshotWork keeps the work of a box. That may need a machine, without the limits that ended the
// last one.
func (r *run) snapshotWork(ctx context.Context, box agentbox.Box, evidence func() Evidence) (kept Kept, err error) {
	t, err := r.q.Store.Read(r.rec.ID)
	if err != nil {
		return Kept{}, err
	}
	for range maxKeepAttempts {
		if err = r.q.Boxes.LiftLimits(ctx, r.ref()); err == nil {
			kept, err = r.q.Snapshotter.Keep(ctx, box, t)
		}
		if err == nil || ctx.Err() != nil {
			return kept, err
		}
		// What still runs may have filled the disk, or the table of processes. A new machine has
		// room in both.
		evidence()
		if stopErr := r.q.Boxes.Stop(ctx, r.ref()); stopErr != nil {
			r.q.Log.Warn("cannot stop the box of a task", "box", r.BoxName, "error", stopErr)
		}
	}
	return kept, err
}

// TimelineEvent is one line of timeline.jsonl.
type TimelineEvent struct {
	Time   time.Time     `json:"time"`
	What   string        `json:"what"` // box, command, cancelled, exit, work, artifacts, checks, ended
	Detail string        `json:"detail,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
}

// timeline records what happens in an attempt, as it happens. A failure to write is no reason to
// end the attempt. Lines are appended as a whole, so another process may read at the same time.
type timeline struct {
	path string
}

// Note adds to the timeline of an attempt, whose directory is given, for a Remote.
func Note(dir, what, detail string) { (&timeline{filepath.Join(dir, timelineFile)}).add(what, detail) }

func (t *timeline) add(what, detail string) { t.addTimed(what, detail, 0) }

func (t *timeline) addTimed(what, detail string, took time.Duration) {
	t.append(TimelineEvent{time.Now().UTC(), what, detail, took})
}

// append appends an event as one line, in one write.
func (t *timeline) append(m TimelineEvent) {
	line, _ := json.Marshal(m) // of texts and numbers
	f, err := os.OpenFile(t.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(append(line, '\n'))
}

// Timeline reads what happened in attempt n, counted from 1. The error is fs.ErrNotExist before the
// first moment.
func (s Store) Timeline(id agentbox.TaskID, n int) ([]TimelineEvent, error) {
	b, err := os.ReadFile(s.Attempt(id, n) + "/" + timelineFile)
	if err != nil {
		return nil, err
	}
	var all []TimelineEvent
	for line := range strings.Lines(string(b)) {
		var m TimelineEvent
		if json.Unmarshal([]byte(line), &m) == nil { // a last line may be cut short
			all = append(all, m)
		}
	}
	return all, nil
}
