package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
)

// TestFleetChaos has one machine run the tasks of another, both homes on loopback, and kills daemons,
// supervisors and machines of both at random moments. Each task must have exactly one result, which is
// that of its work, and no box or task may be left on either machine.
func TestFleetChaos(t *testing.T) {
	needPart(t, nightly)
	t.Parallel()
	kills, seed := numberFrom(t, killsEnv, fleetKills), numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d %s=%d", killsEnv, kills, seedOfChaos, seed)
	c := &fleetChaos{taskChaos: taskChaos{chaos: newChaos(t, "gvisor", seed)}, worker: taskChaos{chaos: newChaos(t, "gvisor", seed+1)}}
	c.dir, c.worker.dir = c.repos[0], c.worker.repos[0]
	c.join()
	for n := uint64(0); n < kills && !t.Failed(); {
		n += c.round(kills - n)
	}
	t.Logf("killed: %v, and at the worker %v", c.kills, c.worker.kills)
}

// fleetChaos is the owner of tasks, and a worker.
type fleetChaos struct {
	taskChaos
	worker taskChaos
}

// fleetTasks are the tasks of a round: more than run at once. fleetKills is how many processes are killed
// unless killsEnv says another number.
const (
	fleetTasks = 4
	fleetKills = 3
)

// join makes the team.
func (c *fleetChaos) join() {
	must := func(on *taskChaos, args ...string) string {
		out, err := on.insist(on.dir, args...)
		if err != nil {
			c.t.Fatalf("agentbox %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
	must(&c.taskChaos, "mesh", "init", "--name", "owner", "--listen", "127.0.0.1:0")
	token := must(&c.taskChaos, "mesh", "invite", "-q")
	must(&c.worker, "mesh", "join", "--name", "worker", "--listen", "127.0.0.1:0", token)
	must(&c.worker, "idle", "allow", "--always", "--tasks", "3")
}

// round submits tasks and kills processes until they have ended, at most most times and once at least.
func (c *fleetChaos) round(most uint64) (kills uint64) {
	ids := c.submit()
	for kills == 0 || kills < most && !c.done() {
		time.Sleep(time.Duration(c.rand.Int64N(int64(2 * maxDelay))))
		c.strike()
		kills++
	}
	for deadline := time.Now().Add(opTimeout); !c.done() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	all := c.tasks()
	c.checkTasks(all, ids)
	c.checkBoxes(all)
	c.checkWorker()
	if out, err := c.insist(c.dir, append([]string{"task", "rm", "-q"}, idsOf(all)...)...); err != nil {
		c.t.Errorf("task rm: %v\n%s", err, out)
	}
	return kills
}

// checkWorker waits until the worker has no task but those whose box has what could not be kept.
func (c *fleetChaos) checkWorker() {
	var left []agentbox.Task
	for deadline := time.Now().Add(opTimeout); ; time.Sleep(100 * time.Millisecond) {
		left = c.worker.tasks()
		if !slices.ContainsFunc(left, func(t agentbox.Task) bool { return !t.Delivered }) {
			break
		}
		if time.Now().After(deadline) {
			c.t.Errorf("the worker still has %v", idsOf(left))
			return
		}
	}
	c.worker.checkBoxes(left)
	if len(left) == 0 {
		return
	}
	if out, err := c.worker.insist(c.worker.dir, append([]string{"task", "rm", "-q"}, idsOf(left)...)...); err != nil {
		c.t.Errorf("task rm: %v\n%s", err, out)
	}
}

func (c *fleetChaos) must(args ...string) string {
	c.t.Helper()
	out, err := c.insist(c.dir, args...)
	if err != nil {
		c.t.Fatalf("agentbox %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(out)
}

func (c *fleetChaos) submit() []string {
	each := filepath.Join(c.t.TempDir(), "each")
	if err := os.WriteFile(each, []byte("1\n2\n3\n4\n"), 0o600); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.run(c.dir, "task", "submit", "-q", "--where", "idle", "--each", each, "--retries", "50", "--", "sh", "-c", taskScript, "x")
	ids := strings.Fields(out)
	if err != nil || len(ids) != fleetTasks {
		c.t.Fatalf("task submit: %v\n%s", err, out)
	}
	return ids
}

// strike kills one process of one of the machines. There is always a daemon.
func (c *fleetChaos) strike() {
	on := []*taskChaos{&c.taskChaos, &c.worker, &c.worker}[c.rand.IntN(3)] // only the worker has boxes
	victims := map[string][]int{"daemon": on.daemons(), "supervisor": on.supervisors()}
	for _, pid := range victims["supervisor"] {
		victims["machine"] = slices.Concat(victims["machine"], machineOf(pid))
	}
	maps.DeleteFunc(victims, func(_ string, pids []int) bool { return len(pids) == 0 })
	if len(victims) == 0 {
		c.t.Errorf("no process of ours is recognized in %s", on.home)
		return
	}
	victim := slices.Sorted(maps.Keys(victims))[c.rand.IntN(len(victims))]
	pids := victims[victim]
	if syscall.Kill(pids[c.rand.IntN(len(pids))], syscall.SIGKILL) == nil { // else it has ended by itself
		on.kills[victim]++
	}
	// What a person at that machine does next; else its daemon stays away, as at a machine without a
	// service.
	_ = on.tasks()
}
