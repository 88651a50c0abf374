package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

func TestReportTasks(t *testing.T) {
	now := time.Unix(2000, 0)
	old := ended(agentbox.TaskFailed, 1, "", 0)
	old.Created = time.Unix(1, 0)
	old.Attempts[0].Result.Ended = time.Unix(2, 0)
	late := old // submitted before, ended since
	late.Attempts = []agentbox.Attempt{{Started: time.Unix(3, 0), Result: &agentbox.Result{State: agentbox.TaskFailed, Ended: time.Unix(1500, 0)}}}
	done := ended(agentbox.TaskSucceeded, 0, "", 0)
	done.Attempts[0].Result.Ref = "refs/agentbox/tasks/x"
	done.Attempts[0].Result.Changes = []agentbox.FileChange{{Added: 3}, {Added: 1, Deleted: 2}}
	lost := ended(agentbox.TaskLost, -1, "", 0)
	kept := ended(agentbox.TaskFailed, 1, agentbox.CausePolicy, 0)
	kept.Command, kept.Attempts[0].Result.Box = []string{"<script>"}, "t-1-1"
	waits := agentbox.Task{State: agentbox.TaskQueued, Created: time.Unix(1, 0)}
	since := time.Unix(500, 0)
	var all []agentbox.Task
	for _, one := range []agentbox.Task{old, waits, done, lost, late, kept} {
		if !one.EndedBefore(since) {
			all = append(all, one)
		}
	}
	m := reportTasks(all, since, now)
	if len(m.Rows) != 5 || m.Succeeded != 1 || m.Open != 1 || m.Abandoned["machine"] != 1 || m.Abandoned["policy"] != 1 || m.Abandoned["environment"] != 1 {
		t.Fatalf("%+v", m)
	}
	if got := m.headline(); got != "1 of 5 tasks succeeded, environment 1, machine 1, policy 1, not over 1" {
		t.Errorf("%q", got)
	}
	var states []agentbox.TaskState
	next := map[agentbox.TaskState]string{}
	for _, r := range m.Rows {
		states = append(states, r.State)
		next[r.State] = r.Next
	}
	if states[3] != agentbox.TaskSucceeded || states[4] != agentbox.TaskQueued {
		t.Errorf("what needs somebody is not first: %v", states)
	}
	if m.Rows[3].Changed != "2 files, +4 -2" {
		t.Errorf("%q", m.Rows[3].Changed)
	}
	for state, want := range map[agentbox.TaskState]string{agentbox.TaskSucceeded: "agentbox pull ", agentbox.TaskLost: "agentbox task retry ", agentbox.TaskFailed: "agentbox shell t-1-1"} {
		if !strings.HasPrefix(next[state], want) {
			t.Errorf("%s: %q", state, next[state])
		}
	}
	var page bytes.Buffer
	if err := m.writePage(&page); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script") || !strings.Contains(page.String(), "agentbox pull") {
		t.Error(page.String())
	}
}

// Figures that another machine measured are its word, which may be wrong.
func TestReportSaysWhoMeasured(t *testing.T) {
	used := &agentbox.Consumption{CPU: time.Second}
	there := ended(agentbox.TaskSucceeded, 0, "", 0)
	there.Where, there.Attempts[0].Worker, there.Attempts[0].Result.Used = "idle", "two", used
	there.AddUsage(used, &agentbox.Cost{Amount: 0.25, Currency: "EUR"})
	there.Attempts = append([]agentbox.Attempt{{Worker: "one\x1b[2J", Result: &agentbox.Result{State: agentbox.TaskFailed, Used: used}}, {Worker: "lost", Result: &agentbox.Result{State: agentbox.TaskLost}}}, there.Attempts...)
	here := ended(agentbox.TaskSucceeded, 0, "", 0)
	here.AddUsage(used, &agentbox.Cost{Amount: 1, Currency: "EUR"})
	m := reportTasks([]agentbox.Task{there, here}, time.Unix(0, 0), time.Unix(2000, 0))
	if got := m.Rows[0].costText(); got != "0.2500 EUR, measured by one\ufffd[2J, two" {
		t.Errorf("%q", got)
	}
	if got := m.Rows[1].costText(); got != "1.0000 EUR" {
		t.Errorf("%q", got)
	}
	if got := m.headline(); got != "2 of 2 tasks succeeded, 1.2500 EUR, measured by one\ufffd[2J, two" {
		t.Errorf("%q", got)
	}
	if got := usedRows(*there.Attempts[2].Result, "two")[0][1]; !strings.HasSuffix(got, ", measured by two") {
		t.Errorf("%q", got)
	}
	if got := usedRows(*there.Attempts[2].Result, "")[0][1]; strings.Contains(got, "measured") {
		t.Errorf("%q", got)
	}
}

func TestSinceTime(t *testing.T) {
	now := time.Date(2026, 11, 28, 7, 30, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"yesterday": time.Date(2026, 11, 27, 0, 0, 0, 0, time.Local), "today": time.Date(2026, 11, 28, 0, 0, 0, 0, time.Local),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.Local), "12h": now.Add(-12 * time.Hour),
	} {
		if got, err := sinceTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := sinceTime("soon", now); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Error(err)
	}
}
