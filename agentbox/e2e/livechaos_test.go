package e2e

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLiveChaos moves what runs in a box to another machine and back, and kills the command or a daemon of
// one of them at a random moment. What ran runs on one of the two afterwards, and has lost nothing.
func TestLiveChaos(t *testing.T) {
	needPart(t, nightly)
	t.Parallel()
	kills, seed := numberFrom(t, killsEnv, 2*fleetKills), numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d %s=%d", killsEnv, kills, seedOfChaos, seed)
	c := &liveChaos{enterChaos: enterChaos{fleetChaos: fleetChaos{taskChaos: taskChaos{chaos: newChaos(t, "gvisor", seed)}, worker: taskChaos{chaos: newChaos(t, "gvisor", seed+1)}}}}
	c.dir, c.worker.dir = c.repos[0], c.worker.repos[0]
	c.join()
	c.box = c.must("up", "-q", "--detach")
	c.must("exec", c.box, "--", "sh", "-c", `mkfifo /tmp/ask /tmp/answer; setsid -f sh -c 'secret=$(cat /proc/sys/kernel/random/uuid); while read line </tmp/ask; do n=$((n + 1)); echo $secret $n >/tmp/answer; done'`)
	c.must("task", "share", "--push", c.box)
	secret, _, _ := strings.Cut(c.must("exec", c.box, "--", "sh", "-c", askMemory), " ")
	c.secret, c.asked = secret, 1
	for n := uint64(0); n < kills && !t.Failed(); n++ {
		c.round()
	}
	t.Logf("killed: %v, and moved %d times", c.kills, c.moved)
}

// askMemory asks the process of the box, whose memory alone knows the answer.
const askMemory = "test -p /tmp/ask && echo >/tmp/ask && cat /tmp/answer"

type liveChaos struct {
	enterChaos
	secret       string
	there        string // the worker's box that has it; "" if the owner's has
	asked, moved int
}

func (c *liveChaos) round() {
	op := c.worker.operation(c.worker.dir, "enter", "enter", "--live", c.box, "--", "true")
	if c.there != "" {
		op = c.worker.operation(c.worker.dir, "push", "push", "--live", c.there)
	}
	op.start(c.worker.chaos)
	time.Sleep(time.Duration(c.rand.Int64N(int64(4 * maxDelay))))
	pids := [][]int{c.daemons(), c.worker.daemons(), {op.cmd.Process.Pid}}
	victim := c.rand.IntN(len(pids))
	for _, pid := range pids[victim] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	who := []string{"owner", "worker", "client"}[victim]
	c.kills[who]++
	err := op.wait()
	c.t.Logf("%s killed, %s: %s", who, op.what, op.told(err))
	op.after(c.worker.chaos, err)
	before := c.there
	// Until the machines have met.
	for deadline := time.Now().Add(opTimeout); !c.find(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			c.t.Error("what ran in the box runs nowhere")
			return
		}
	}
	if (before == "") != (c.there == "") {
		c.moved++
	}
}

// find asks all boxes of both machines, of which one must answer.
func (c *liveChaos) find() bool {
	var found []string
	if out, err := c.run(c.dir, "exec", "-n", c.box, "--", "sh", "-c", askMemory); err == nil {
		found = append(found, "", c.told(out))
	}
	ids, err := c.worker.run(c.worker.dir, "ls", "-q")
	if err != nil {
		return false
	}
	for _, id := range strings.Fields(ids) {
		if out, err := c.worker.run(c.worker.dir, "exec", "-n", id, "--", "sh", "-c", askMemory); err == nil {
			found = append(found, id, c.told(out))
		}
	}
	if len(found) > 2 {
		c.t.Errorf("it runs twice: %q", found)
	}
	if len(found) == 2 {
		c.there = found[0]
	}
	return len(found) > 0
}

// told checks an answer.
func (c *liveChaos) told(out string) string {
	c.asked++
	if want := fmt.Sprintf("%s %d\n", c.secret, c.asked); out != want {
		c.t.Error(errors.New("it has lost its memory"), out, want)
	}
	return strings.TrimSpace(out)
}
