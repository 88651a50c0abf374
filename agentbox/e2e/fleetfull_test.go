package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

// TestFleetFull fills the disk of a machine that runs another one's task, and then that of its owner, at
// each step of the task. Each task ends, with its work or with a reason, and leaves no box and no task at
// the worker.
func TestFleetFull(t *testing.T) {
	needPart(t, nightly)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has disks to fill")
	}
	seed := numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedOfChaos, seed)
	c := &fleetChaos{taskChaos: taskChaos{chaos: chaosIn(t, smallHome(t), "gvisor", seed)}, worker: taskChaos{chaos: chaosIn(t, smallHome(t), "gvisor", seed+1)}}
	c.dir, c.worker.dir = c.repos[0], c.worker.repos[0]
	c.join()
	for _, on := range []*taskChaos{&c.worker, &c.taskChaos} {
		for _, step := range fullSteps {
			c.fullAt(on, step)
			if t.Failed() {
				t.Fatalf("after %q, at the worker: %v", step, on == &c.worker)
			}
		}
	}
}

// fullSteps are what the worker's record of a task has when the disk is filled: before the worker has it, and
// when its box is made, the command begins and ends, and the work is kept.
var fullSteps = []string{"", `"what":"box"`, `"what":"command"`, `"what":"exit"`, `"what":"work"`}

// fullAt fills a disk at a step until the task has ended, or for a while.
func (c *fleetChaos) fullAt(on *taskChaos, step string) {
	id := c.must("task", "submit", "-q", "--where", "idle", "--", "sh", "-c", taskScript, "x", "1")
	for deadline := time.Now().Add(opTimeout); step != "" && !c.reached(step) && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	undo := on.fill(0)
	for deadline := time.Now().Add(fullTime); !c.done() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	undo()
	for deadline := time.Now().Add(opTimeout); !c.done() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	all := c.tasks()
	if len(all) != 1 || all[0].ID.String() != id || !all[0].State.Done() {
		c.t.Fatalf("there are %+v", all)
	}
	for _, a := range all[0].Attempts {
		if a.Result == nil || !slices.ContainsFunc(a.Result.Notes, isInBox) {
			c.checkAttempt(all[0], a)
		}
		if a.Result != nil && a.Result.State != agentbox.TaskSucceeded && a.Result.Reason == "" {
			c.t.Errorf("it ended without a reason: %+v", *a.Result)
		}
	}
	c.t.Logf("full after %q: %s %+v", step, all[0].State, all[0].Last().Result)
	c.checkBoxes(all)
	c.checkWorker()
	c.must("task", "rm", "-q", id)
}

// isInBox tells of a note whether it names the box that has the work, as there was no room for it elsewhere.
func isInBox(note string) bool { return strings.HasPrefix(note, "what could not be kept is in box ") }

// fullTime is how long a disk stays full at most.
const fullTime = 10 * time.Second

// reached tells whether a task of the worker has come to a step.
func (c *fleetChaos) reached(step string) bool {
	lines, err := filepath.Glob(filepath.Join(c.worker.home, "tasks", "*", "attempts", "*", "timeline.jsonl"))
	return err == nil && slices.ContainsFunc(lines, func(path string) bool {
		b, err := os.ReadFile(path)
		return err == nil && bytes.Contains(b, []byte(step))
	})
}
