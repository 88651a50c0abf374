package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

func someTasks() []agentbox.Task {
	monday := time.Date(2026, 11, 16, 12, 0, 0, 0, time.Local)
	used := func(cpu time.Duration, output int64) *agentbox.Consumption {
		c := agentbox.Consumption{CPU: cpu, Memory: 1, In: 1 << 20}
		c.AddTokens("m", agentbox.Tokens{Answers: 1, Output: output})
		return &c
	}
	all := []agentbox.Task{
		{Created: monday, State: agentbox.TaskSucceeded, TaskSpec: agentbox.TaskSpec{Agent: "claude", Project: "b"}},
		{Created: monday.AddDate(0, 0, 6), State: agentbox.TaskFailed, TaskSpec: agentbox.TaskSpec{Project: "a"}},
		{Created: monday.AddDate(0, 0, 7), State: agentbox.TaskQueued, TaskSpec: agentbox.TaskSpec{Agent: "claude", Project: "b"}},
	}
	all[0].AddUsage(used(time.Second, 10), &agentbox.Cost{Amount: 0.25, Currency: "EUR"})
	all[0].AddUsage(used(time.Second, 10), &agentbox.Cost{Amount: 0.25, Currency: "EUR", Unrated: []string{"z\x1b[2J", "m"}}) // its second attempt
	all[1].AddUsage(used(2*time.Second, 5), &agentbox.Cost{Amount: 1, Currency: "XTS", Unrated: []string{"m"}})
	return all
}

func TestTasksAreSummed(t *testing.T) {
	for by, want := range map[string]string{
		"week":    `2026-W47 2 25 0.5000 EUR + 1.0000 XTS, 2026-W48 1 0 `,
		"agent":   `claude 2 20 0.5000 EUR, none 1 5 1.0000 XTS`,
		"project": `a 1 5 1.0000 XTS, b 2 20 0.5000 EUR`,
		"state":   `failed 1 5 1.0000 XTS, queued 1 0 , succeeded 1 20 0.5000 EUR`,
	} {
		var got []string
		for _, s := range sumTasks(someTasks(), taskGroups[by]) {
			n, _ := json.Marshal([]int64{int64(s.Tasks), s.Used.Tokens().Total()})
			got = append(got, s.By+" "+strings.NewReplacer("[", "", "]", "", ",", " ").Replace(string(n))+" "+costsText(s.Costs))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}

// The last line of a list must say what all tasks used. Names of models are a server's words.
func TestTaskListEndsWithSum(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.report(taskFacts(someTasks())); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	want := "3 tasks: cpu 4.00 s, memory 3.0 GiB-s, network 3 MiB in, 0 B out, 25 tokens, 0.5000 EUR + 1.0000 XTS, without m, z"
	if last := lines[len(lines)-1]; len(lines) != 5 || !strings.HasPrefix(last, want) || strings.Contains(last, "\x1b") {
		t.Errorf("it ends with %q", last)
	}
	if !strings.Contains(lines[1], " 0.5000 EUR ") {
		t.Errorf("a task of two attempts: %q", lines[1])
	}
	if text := allTasks(nil); text != "" {
		t.Errorf("no tasks: %q", text)
	}
}

func TestShortTaskUsageIsShown(t *testing.T) {
	for held, want := range map[float64]string{0: "0", 0.00004: "<0.001", 0.0312: "0.031", 0.5: "0.5", 0.999: "1", 1: "1.0", 12.34: "12.3", 1234.5: "1234.5"} {
		if got := heldText(held); got != want {
			t.Errorf("%v GiB-s: %s", held, got)
		}
	}
}

func TestAttemptEvidenceIsShown(t *testing.T) {
	ref := "refs/agentbox/tasks/t-1"
	for want, r := range map[string]agentbox.Result{
		"no work; artifacts that could not be copied are in box b": {Box: "b", Uncollected: true},
		"no work":                                 {},
		"1 commit in " + ref:                      {Commits: 1, Ref: ref},
		"2 uncommitted files in " + ref:           {Files: 2, Ref: ref},
		"1 commit, 2 uncommitted files in " + ref: {Commits: 1, Files: 2, Ref: ref},
		"work in box b":                           {Box: "b"},
		"work in box b, not all of which could be kept, in box b: no room":                                          {Box: "b", Missing: []string{"no room"}},
		"1 commit in " + ref + ", not all of which could be kept, in box b: x; y":                                   {Commits: 1, Ref: ref, Box: "b", Missing: []string{"x", "y"}},
		"side with 2 commits, lib (main) with 1 commit and 3 uncommitted files in " + ref:                           {Ref: ref, OtherWork: []agentbox.OtherWork{{Name: "side", Commits: 2}, {Name: "main", Path: "lib", Commits: 1, Files: 3}}},
		"1 commit, a, a, a, a, a, 2 more in " + ref:                                                                 {Commits: 1, Ref: ref, OtherWork: slices.Repeat([]agentbox.OtherWork{{Name: "a"}}, 7)},
		"1 commit in " + ref + ", which the checkout does not have: it is gone; x.up is kept as it lies in the box": {Commits: 1, Ref: ref, Unexported: "it is gone", Notes: []string{"x.up is kept as it lies in the box"}},
		"1 commit in " + ref + "; of 3 answers of its model, 1 cut off, 1 refused":                                  {State: agentbox.TaskSucceeded, Commits: 1, Ref: ref, Used: &agentbox.Consumption{Models: map[string]agentbox.Tokens{"m": {Answers: 2, Cut: 1}, "n": {Answers: 1, Refused: 1}}}},
		"1 commit in box b; artifacts that could not be copied are in box b":                                        {Commits: 1, Box: "b", Uncollected: true},
	} {
		if got := r.WorkText(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}
