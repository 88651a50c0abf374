package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
)

// Tasks in one round of TestTaskChaos: more than run at once, so that some are queued. An emulated
// machine takes a minute for what takes gVisor a second, so it gets fewer.
var (
	chaosTasks    = map[string]int{"gvisor": 20, "microvm": 5}
	chaosParallel = map[string]int{"gvisor": 8, "microvm": 2}
)

const (
	chaosKills   = 15 // of processes, unless killsEnv says another number
	chaosRetries = 50 // so that each task succeeds in the end, however often its machine is killed
)

// taskChaos kills processes that work on tasks.
type taskChaos struct {
	*chaos
	dir    string
	client *exec.Cmd // a running command on tasks, while processes are killed; may be nil
}

// TestTaskChaos runs 20 tasks, 8 at once (in microVMs 5 and 2), while it kills the daemon,
// supervisors and clients at random moments. Each attempt must have exactly one result, each task
// must succeed in the end, everything that a command reported as written must exist, and no box may
// be left.
func TestTaskChaos(t *testing.T) {
	needPart(t, slow)
	t.Parallel()
	kind := cmp.Or(os.Getenv(kindOfChaos), "gvisor")
	kills, seed := numberFrom(t, killsEnv, chaosKills), numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%s %s=%d %s=%d", kindOfChaos, kind, killsEnv, kills, seedOfChaos, seed)
	c := &taskChaos{chaos: newChaos(t, kind, seed)}
	c.dir = c.repos[0]
	for n := uint64(0); n < kills && !t.Failed(); {
		n += c.round(kills - n)
	}
	t.Logf("killed: %v", c.kills)
	c.checkKills()
}

// taskScript writes the evidence of a task: a file as it begins, which it reports when it is on
// disk, and a commit when it ends.
const taskScript = `echo begun >>"begun-$1" && sync "begun-$1" && echo written; sleep 2; echo done >"done-$1"; git add "done-$1"; git commit -qm "task $1"; echo late >"late-$1"`

// round submits tasks and kills processes until the tasks have ended, at most limit times. It
// returns the number of kills.
func (c *taskChaos) round(most uint64) (kills uint64) {
	ids := c.submit()
	for kills < most && !c.done() {
		time.Sleep(time.Duration(c.rand.Int64N(int64(2 * maxDelay))))
		if c.strike() {
			kills++
		}
	}
	c.endClient()
	deadline := time.Now().Add(opTimeout)
	for !c.done() && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	all := c.tasks()
	c.checkTasks(all, ids)
	c.checkBoxes(all)
	if out, err := c.insist(c.dir, append([]string{"task", "rm", "-q"}, idsOf(all)...)...); err != nil {
		c.t.Errorf("task rm: %v\n%s", err, out)
	}
	return max(kills, 1)
}

// submit submits the tasks of a round and returns their ids.
func (c *taskChaos) submit() []string {
	var lines bytes.Buffer
	for n := range chaosTasks[c.kind] {
		fmt.Fprintln(&lines, n)
	}
	each := filepath.Join(c.t.TempDir(), "each")
	if err := os.WriteFile(each, lines.Bytes(), 0o600); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.run(c.dir, "task", "submit", "-q", "--each", each, "--parallel", fmt.Sprint(chaosParallel[c.kind]), "--retries", fmt.Sprint(chaosRetries), "--", "sh", "-c", taskScript, "x")
	if err != nil {
		c.t.Fatalf("task submit: %v\n%s", err, out)
	}
	ids := strings.Fields(out)
	if len(ids) != chaosTasks[c.kind] {
		c.t.Fatalf("%d tasks were submitted: %s", len(ids), out)
	}
	return ids
}

// strike kills one process and reports whether it did. A client is a command that is running
// meanwhile.
func (c *taskChaos) strike() bool {
	var pids []int
	victim := []string{"client", "daemon", "supervisor"}[c.rand.IntN(3)]
	switch victim {
	case "client":
		if c.client == nil {
			c.startClient()
			return false // the next strike may kill it
		}
		pids = []int{c.client.Process.Pid}
	case "daemon":
		pids = c.daemons()
	case "supervisor":
		pids = c.supervisors()
	}
	if len(pids) == 0 || syscall.Kill(pids[c.rand.IntN(len(pids))], syscall.SIGKILL) != nil {
		return false
	}
	c.kills[victim]++
	if victim == "client" {
		_ = c.client.Wait()
		c.client = nil
	}
	return true
}

// startClient starts a command that takes a while: one that watches a task, or one that submits its
// own.
func (c *taskChaos) startClient() {
	id := "t-"
	if all := c.tasks(); len(all) > 0 {
		id = all[c.rand.IntN(len(all))].ID.String()
	}
	does := [][]string{
		{"task", "logs", "-f", id}, {"task", "attach", id}, {"run", "-n", "--", "sh", "-c", taskScript, "x", "run"}, {"task", "submit", "-q", "--wait", "--", "sh", "-c", taskScript, "x", "waited"},
	}[c.rand.IntN(4)]
	c.client = c.program(c.dir, filepath.Join(shared.bin, "agentbox"), does...)
	if err := c.client.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *taskChaos) endClient() {
	if c.client != nil {
		_ = c.client.Process.Kill()
		_ = c.client.Wait()
		c.client = nil
	}
}

// tasks returns all tasks, or none while no daemon answers.
func (c *taskChaos) tasks() (all []agentbox.Task) {
	out, err := c.insist(c.dir, "task", "ls", "--all", "--json")
	if err != nil {
		c.t.Logf("task ls: %v\n%s", err, out)
		return nil
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		c.t.Fatalf("task ls --json: %v\n%s", err, out)
	}
	return all
}

func (c *taskChaos) done() bool {
	all := c.tasks()
	return len(all) > 0 && !slices.ContainsFunc(all, func(t agentbox.Task) bool { return !t.State.Done() })
}

// checkTasks checks every task, and that the submitted ones have succeeded.
func (c *taskChaos) checkTasks(all []agentbox.Task, submitted []string) {
	for _, t := range all {
		if !t.State.Done() {
			c.t.Errorf("task %s is %s still", t.ID, t.State)
		}
		for _, a := range t.Attempts {
			c.checkAttempt(t, a)
		}
		if i := slices.Index(submitted, t.ID.String()); i >= 0 {
			submitted = slices.Delete(submitted, i, i+1)
			if t.State != agentbox.TaskSucceeded {
				c.t.Errorf("task %s is %s, and nobody cancelled it: %+v", t.ID, t.State, t.Last())
			}
		}
	}
	if len(submitted) > 0 {
		c.t.Errorf("tasks are lost: %v", submitted)
	}
}

// checkAttempt checks that an attempt has a result and its work: exactly one copy of the file that
// it reported as written, and after success all of it.
func (c *taskChaos) checkAttempt(t agentbox.Task, a agentbox.Attempt) {
	what := fmt.Sprintf("attempt %d of task %s", a.Number, t.ID)
	if a.Result == nil {
		c.t.Errorf("%s has no result", what)
		return
	}
	if a.Number < len(t.Attempts) && a.Result.State == agentbox.TaskSucceeded {
		c.t.Errorf("%s succeeded, and was followed by another", what)
	}
	name := t.Command[len(t.Command)-1]
	dir := filepath.Join(c.home, "tasks", t.ID.String(), "attempts", fmt.Sprint(a.Number))
	cast, _ := os.ReadFile(filepath.Join(dir, "transcript.cast")) // absent if the command never ran
	succeeded := a.Result.State == agentbox.TaskSucceeded
	if !bytes.Contains(cast, []byte(`written\r\n`)) && !succeeded || a.Result.Box != "" {
		return
	}
	want := map[string]string{"begun-": "begun\n"}
	if succeeded {
		want["done-"], want["late-"] = "done\n", "late\n"
	}
	for prefix, content := range want {
		out, err := c.program(c.dir, "git", "show", a.Result.Ref+":"+prefix+name).CombinedOutput()
		if err != nil || string(out) != content {
			timeline, _ := os.ReadFile(filepath.Join(dir, "timeline.jsonl")) // evidence only
			c.t.Errorf("%s: its ref has %q as %s: %v; it ended so: %+v\n%s", what, out, prefix+name, err, *a.Result, timeline)
		}
	}
}

// checkBoxes waits until the only boxes left are those in results, which hold work that could not
// be saved elsewhere.
func (c *taskChaos) checkBoxes(all []agentbox.Task) {
	var stay []string
	for _, t := range all {
		for _, a := range t.Attempts {
			if a.Result != nil && a.Result.Box != "" {
				stay = append(stay, a.Result.Box)
				c.t.Logf("box %s has the work of %s", a.Result.Box, t.ID)
			}
		}
	}
	var left []string
	for deadline := time.Now().Add(opTimeout); ; time.Sleep(100 * time.Millisecond) {
		if left = c.boxes(); !slices.ContainsFunc(left, func(name string) bool { return !slices.Contains(stay, name) }) {
			break
		}
		if time.Now().After(deadline) {
			c.t.Errorf("boxes %v are left, and %v may be", left, stay)
			return
		}
	}
	for _, name := range stay {
		if !slices.Contains(left, name) {
			c.t.Errorf("box %s is gone with the work in it", name)
		} else if out, err := c.insist(c.dir, "rm", "--force", "-q", name); err != nil {
			c.t.Errorf("rm %s: %v\n%s", name, err, out)
		}
	}
}

func (c *taskChaos) boxes() (names []string) {
	out, err := c.insist(c.dir, "ls", "--json")
	var all []agentbox.Box
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil {
		c.t.Errorf("ls: %v\n%s", err, out)
	}
	for _, b := range all {
		names = append(names, b.Name)
	}
	return names
}

func idsOf(all []agentbox.Task) (ids []string) {
	for _, t := range all {
		ids = append(ids, t.ID.String())
	}
	return ids
}
