package cli

import (
	"testing"
	"time"

	"agentbox/agentbox"
)

// ended is a task that ended like this, after it waited for some seconds.
func ended(state agentbox.TaskState, exit int, cause string, waited int) agentbox.Task {
	t := agentbox.Task{State: state, Created: time.Unix(1000, 0)}
	r := &agentbox.Result{State: state, Cause: cause}
	if exit >= 0 {
		r.Exit = &exit
	}
	t.Attempts = []agentbox.Attempt{{Started: time.Unix(1000+int64(waited), 0), Result: r}}
	return t
}

func TestMeasureTasks(t *testing.T) {
	old := ended(agentbox.TaskFailed, 1, "", 0)
	old.Created = time.Unix(1, 0)
	retried := ended(agentbox.TaskSucceeded, 0, "", 1)
	retried.Attempts = append(retried.Attempts, retried.Attempts[0])
	retried.Attempts[1].Result.Pressure = []agentbox.Pressure{{}}
	all := []agentbox.Task{
		old, retried,
		ended(agentbox.TaskFailed, 1, "", 2), ended(agentbox.TaskFailed, 127, "", 3), ended(agentbox.TaskFailed, 1, agentbox.CausePolicy, 4),
		ended(agentbox.TaskLost, -1, "", 5), ended(agentbox.TaskLimited, -1, "", 6), ended(agentbox.TaskCancelled, -1, "", 7), {State: agentbox.TaskQueued, Created: time.Unix(1000, 0)},
	}
	got := measureTasks(all, time.Unix(500, 0), taskGroups["agent"])
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	m := got[0]
	if m.By != "none" || m.Tasks != 8 || m.Done != 7 || m.Succeeded != 1 || m.Retried != 1 || m.Short != 1 || m.WaitedP50 != 4*time.Second || m.WaitedP95 != 7*time.Second {
		t.Errorf("%+v", m)
	}
	for cause, n := range map[string]int{"code": 1, "environment": 1, "machine": 1, "policy": 1, "limit": 1, "cancelled": 1} {
		if m.Abandoned[cause] != n {
			t.Errorf("%s: %d, want %d", cause, m.Abandoned[cause], n)
		}
	}
	if got := measuresFacts(got, "agent").table; len(got) != 2 || got[0][0] != "AGENT" || got[1][2] != "1 of 7" {
		t.Errorf("%q", got)
	}
}

func TestParseSince(t *testing.T) {
	for text, want := range map[string]time.Duration{"30d": 720 * time.Hour, "12h": 12 * time.Hour} {
		if got, err := parseSince(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "d", "-1d", "0d", "999999999d", "-5h", "x"} {
		if got, err := parseSince(bad); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
