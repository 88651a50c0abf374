package schedule

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
)

// look is how often the clock is looked at: a timer stops while the machine sleeps.
const look = 20 * time.Second

// Timetable has the schedules of a home. Its methods are safe for concurrent use; Run is called once.
// All fields are required.
type Timetable struct {
	Dir string
	// Submit submits what a schedule asks for. The request names the schedule.
	Submit func(context.Context, api.TaskSubmission) ([]agentbox.Task, error)
	// Tasks lists all tasks.
	Tasks func() []agentbox.Task
	Log   *slog.Logger

	added background.Signal
	mu    sync.Mutex // held while files are changed
}

// New returns a Timetable whose fields the caller sets.
func New() *Timetable { return &Timetable{added: background.NewSignal()} }

func (t *Timetable) file(id string) string { return filepath.Join(t.Dir, id+".json") }

// Add records a schedule. The error is Invalid for a line that is none.
func (t *Timetable) Add(_ context.Context, req api.NewSchedule, _ agentbox.Progress) (api.Schedule, error) {
	times, err := Parse(req.Times)
	if err != nil {
		return api.Schedule{}, err
	}
	if req.Missed == "" {
		req.Missed = api.MissedOnce
	}
	if req.Missed != api.MissedOnce && req.Missed != api.MissedSkip {
		return api.Schedule{}, agentbox.Errorf(agentbox.Invalid, "--missed %s: it is %s or %s", req.Missed, api.MissedOnce, api.MissedSkip)
	}
	var id [4]byte
	rand.Read(id[:]) // never fails since Go 1.24
	now := time.Now()
	s := api.Schedule{ID: "s-" + hex.EncodeToString(id[:]), NewSchedule: req, Created: now, Last: now}
	s.Submission.Environ = nil // it would be that of this moment, with its secrets
	s.Submission.Spec.Schedule = s.ID
	if s.Next = times.Next(now); s.Next.IsZero() {
		return api.Schedule{}, agentbox.Errorf(agentbox.Invalid, "%q never comes", req.Times)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return api.Schedule{}, err
	}
	defer t.added.Notify()
	return s, durable.WriteJSON(t.file(s.ID), s, 0o600)
}

// List returns the schedules, the oldest first. One that cannot be read is left out, and logged.
func (t *Timetable) List(context.Context, api.None, agentbox.Progress) ([]api.Schedule, error) {
	files, err := filepath.Glob(filepath.Join(t.Dir, "s-*.json"))
	all := []api.Schedule{}
	for _, file := range files {
		s, err := t.read(file)
		if err != nil {
			t.Log.Error("cannot read a schedule", "file", file, "error", err)
			continue
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b api.Schedule) int { return a.Created.Compare(b.Created) })
	return all, err
}

func (t *Timetable) read(file string) (s api.Schedule, err error) {
	if err = durable.ReadJSON(file, &s); err != nil {
		return s, err
	}
	times, err := Parse(s.Times)
	if err == nil {
		s.Next = times.Next(s.Last)
	}
	return s, err
}

// Remove removes a schedule. What it has submitted goes on. The error is NotFound for none.
func (t *Timetable) Remove(_ context.Context, ref api.ScheduleRef, _ agentbox.Progress) (api.Schedule, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.read(t.file(filepath.Base(ref.ID)))
	if errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(ref.ID, "s-") {
		return s, agentbox.Errorf(agentbox.NotFound, "there is no schedule %q", ref.ID).WithHint("agentbox task schedule ls lists them")
	}
	return s, os.Remove(t.file(filepath.Base(ref.ID)))
}

// Run serves schedules until ctx ends.
func (t *Timetable) Run(ctx context.Context) {
	for {
		all, err := t.List(ctx, api.None{}, nil)
		if err != nil {
			t.Log.Error("cannot list schedules", "error", err)
		}
		wait := look
		for _, s := range all {
			t.serve(ctx, s, time.Now())
			if left := time.Until(s.Next); left > 0 {
				wait = min(wait, left)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.added:
		case <-time.After(wait):
		}
	}
}

// serve submits what a schedule has due. A failure counts as served, and is recorded for its owner:
// the next time may go better.
func (t *Timetable) serve(ctx context.Context, s api.Schedule, now time.Time) {
	times, err := Parse(s.Times)
	if err != nil {
		return
	}
	run, skipped, newest := due(times, s.Missed, s.Last, now)
	if newest.Equal(s.Last) || ctx.Err() != nil {
		return
	}
	s.Last, s.Skipped = newest, s.Skipped+skipped
	if !run.IsZero() && !t.served(s.ID, run) {
		s.Error = ""
		if s.Batch, err = t.submit(ctx, s); ctx.Err() != nil {
			return // the next daemon finds out whether it was submitted
		}
		if err != nil {
			s.Error = agentbox.AsError(err).Message
			t.Log.Error("cannot submit the tasks of a schedule", "schedule", s.ID, "error", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := os.Lstat(t.file(s.ID)); err != nil {
		return // it was removed meanwhile
	}
	if err := durable.WriteJSON(t.file(s.ID), s, 0o600); err != nil {
		t.Log.Error("cannot record that a schedule was served", "schedule", s.ID, "error", err)
	}
}

func (t *Timetable) submit(ctx context.Context, s api.Schedule) (agentbox.TaskID, error) {
	all, err := t.Submit(ctx, s.Submission)
	if len(all) == 0 {
		return agentbox.TaskID{}, err
	}
	return all[0].Batch, err
}

// served tells whether tasks of a schedule were submitted at that time or later.
func (t *Timetable) served(id string, at time.Time) bool {
	return slices.ContainsFunc(t.Tasks(), func(one agentbox.Task) bool { return one.Schedule == id && !one.Created.Before(at) })
}
