package schedule

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func at(day, hour, minute int) time.Time {
	return time.Date(2026, 11, day, hour, minute, 0, 0, time.Local)
}

func TestDue(t *testing.T) {
	weekdays := "0 19 * * 1-5"
	for name, c := range map[string]struct {
		times     string
		missed    api.Missed
		last, now time.Time
		run       time.Time
		skipped   int
		newest    time.Time
	}{
		"not yet":                {weekdays, api.MissedOnce, at(26, 19, 0), at(27, 18, 59), time.Time{}, 0, at(26, 19, 0)},
		"on time":                {weekdays, api.MissedSkip, at(26, 19, 0), at(27, 19, 0), at(27, 19, 0), 0, at(27, 19, 0)},
		"weekend":                {weekdays, api.MissedOnce, at(27, 19, 0), at(29, 23, 0), time.Time{}, 0, at(27, 19, 0)},
		"missed, once":           {weekdays, api.MissedOnce, at(23, 19, 0), at(27, 8, 0), at(26, 19, 0), 2, at(26, 19, 0)},
		"missed, skipped":        {weekdays, api.MissedSkip, at(23, 19, 0), at(27, 8, 0), time.Time{}, 3, at(26, 19, 0)},
		"some missed, one now":   {weekdays, api.MissedSkip, at(23, 19, 0), at(26, 19, 0), at(26, 19, 0), 2, at(26, 19, 0)},
		"the clock was set back": {weekdays, api.MissedOnce, at(27, 19, 0), at(20, 8, 0), time.Time{}, 0, at(27, 19, 0)},
	} {
		times, err := Parse(c.times)
		if err != nil {
			t.Fatal(err)
		}
		run, skipped, newest := due(times, c.missed, c.last, c.now)
		if !run.Equal(c.run) || skipped != c.skipped || !newest.Equal(c.newest) {
			t.Errorf("%s: run %v, %d skipped, newest %v", name, run, skipped, newest)
		}
	}
	times, _ := Parse("* * * * *")
	if run, skipped, _ := due(times, api.MissedOnce, at(1, 0, 0).AddDate(-9, 0, 0), at(27, 8, 0)); run.IsZero() || skipped < maxCounted-1 {
		t.Errorf("years of minutes: %v, %d", run, skipped)
	}
}

// A summer night has no 02:30, and an autumn night has it twice: the job runs once in each.
func TestClockChanges(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	times, err := Parse("30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, begin := range []time.Time{time.Date(2026, 3, 28, 12, 0, 0, 0, zone), time.Date(2026, 10, 24, 12, 0, 0, 0, zone)} {
		n := 0
		for next := times.Next(begin); next.Before(begin.AddDate(0, 0, 1)); next = times.Next(next) {
			n++
		}
		if n != 1 {
			t.Errorf("the night after %v has %d", begin, n)
		}
	}
}

func TestInvalidSchedules(t *testing.T) {
	k := New()
	k.Dir, k.Log = t.TempDir(), slog.New(slog.DiscardHandler)
	for _, bad := range []api.NewSchedule{{Times: ""}, {Times: "61 * * * *"}, {Times: "0 0 30 2 *"}, {Times: "0 19 * * *", Missed: "thrice"}} {
		if _, err := k.Add(t.Context(), bad, nil); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := k.Remove(t.Context(), api.ScheduleRef{ID: "../x"}, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
}

// A daemon that is killed after the tasks were submitted, and before that was recorded, submits none
// again.
func TestServedOnce(t *testing.T) {
	var tasks []agentbox.Task
	var failure error
	k := New()
	k.Dir, k.Log, k.Tasks = t.TempDir(), slog.New(slog.DiscardHandler), func() []agentbox.Task { return tasks }
	k.Submit = func(_ context.Context, req api.TaskSubmission) ([]agentbox.Task, error) {
		one := agentbox.Task{ID: agentbox.NewTaskID(), TaskSpec: req.Spec, Created: time.Now()}
		one.Batch = one.ID
		tasks = append(tasks, one)
		return tasks[len(tasks)-1:], failure
	}
	s, err := k.Add(t.Context(), api.NewSchedule{Times: "@hourly", Submission: api.TaskSubmission{Environ: []string{"KEY=secret"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if before, _ := os.ReadFile(k.file(s.ID)); len(before) == 0 || s.Submission.Environ != nil {
		t.Errorf("%s", before)
	}
	s.Last = time.Now().Add(-90 * time.Minute)
	for range 2 { // the same record twice: what a killed daemon finds
		k.serve(t.Context(), s, time.Now())
		if len(tasks) != 1 || tasks[0].Schedule != s.ID {
			t.Fatalf("%d tasks: %+v", len(tasks), tasks)
		}
	}
	all, err := k.List(t.Context(), api.None{}, nil)
	if err != nil || len(all) != 1 || !all[0].Next.After(time.Now()) || all[0].Last.After(time.Now()) {
		t.Fatalf("%+v, %v", all, err)
	}
	failure = errors.New("no checkout")
	s.Last, tasks = time.Now().Add(-2*time.Hour), nil
	k.serve(t.Context(), s, time.Now())
	if all, _ := k.List(t.Context(), api.None{}, nil); all[0].Error != "no checkout" {
		t.Errorf("%+v", all)
	}
	if _, err := k.Remove(t.Context(), api.ScheduleRef{ID: s.ID}, nil); err != nil {
		t.Error(err)
	}
	k.serve(t.Context(), s, time.Now())
	if all, _ := k.List(t.Context(), api.None{}, nil); len(all) != 0 {
		t.Errorf("it is back: %+v", all)
	}
}
