package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEnterChaos has one machine enter a box of another, both homes on loopback, and kills the command,
// daemons, supervisors and machines of both at random moments. Entering gives all of the work, or says
// what failed and leaves nothing; the next time it works, and the box that is entered stays as it was.
func TestEnterChaos(t *testing.T) {
	needPart(t, nightly)
	t.Parallel()
	kills, seed := numberFrom(t, killsEnv, fleetKills), numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d %s=%d", killsEnv, kills, seedOfChaos, seed)
	c := &enterChaos{fleetChaos: fleetChaos{taskChaos: taskChaos{chaos: newChaos(t, "gvisor", seed)}, worker: taskChaos{chaos: newChaos(t, "gvisor", seed+1)}}}
	c.dir, c.worker.dir = c.repos[0], c.worker.repos[0]
	c.join()
	c.box = c.must("up", "-q", "--detach")
	c.must("exec", c.box, "--", "sh", "-c", "echo work >work; git add work; git commit -qm work; echo more >more")
	c.must("task", "share", c.box)
	c.before = c.state()
	for n := uint64(0); n < kills && !t.Failed(); n++ {
		c.round()
	}
	t.Logf("killed: %v, and where it was entered %v", c.kills, c.worker.kills)
}

// enterChaos is the owner of a box, and a worker that enters it.
type enterChaos struct {
	fleetChaos
	box, before string
}

func (c *enterChaos) must(args ...string) string {
	c.t.Helper()
	out, err := c.insist(c.dir, args...)
	if err != nil {
		c.t.Fatalf("agentbox %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(out)
}

// state is what the owner's box has.
func (c *enterChaos) state() string {
	c.t.Helper()
	return c.must("exec", c.box, "--", "sh", "-c", "git log --format=%H; git status --porcelain; cat work more")
}

func (c *enterChaos) entering() *operation {
	op := c.worker.operation(c.worker.dir, "enter", "enter", "--rm", c.box, "--", "cat", "work", "more")
	op.done = func(_ *chaos, op *operation, err error) {
		if out := op.out.String(); err == nil && out != "work\nmore\n" {
			c.t.Errorf("entering gave %q", out)
		}
	}
	return op
}

func (c *enterChaos) round() {
	op := c.entering()
	op.start(c.worker.chaos)
	time.Sleep(time.Duration(c.rand.Int64N(int64(4 * maxDelay))))
	if c.rand.IntN(4) > 0 {
		c.strike()
	} else if syscall.Kill(op.cmd.Process.Pid, syscall.SIGKILL) == nil {
		c.worker.kills["client"]++
	}
	err := op.wait()
	c.t.Logf("enter: %s", op.told(err))
	op.after(c.worker.chaos, err)
	if got := c.state(); got != c.before {
		c.t.Errorf("the box that was entered is\n%s\nand was\n%s", got, c.before)
	}
	for deadline := time.Now().Add(opTimeout); ; {
		op := c.entering()
		op.start(c.worker.chaos)
		err := op.wait()
		op.after(c.worker.chaos, err)
		if err == nil || c.t.Failed() {
			break
		}
		if time.Now().After(deadline) || errors.Is(err, errStuck) {
			c.t.Errorf("it cannot be entered any more: %s", op.told(err))
			break
		}
		time.Sleep(time.Second) // until the machines have found each other again
	}
	c.checkNothingLeft()
}

// checkNothingLeft removes the box of a command that was killed before it could, and looks for what nobody
// would find.
func (c *enterChaos) checkNothingLeft() {
	out, err := c.worker.run(c.worker.dir, "ls", "-q")
	if ids := strings.Fields(out); err == nil && len(ids) > 0 {
		out, err = c.worker.insist(c.worker.dir, append([]string{"rm", "-q", "--force"}, ids...)...)
	}
	if err != nil {
		c.t.Errorf("%v\n%s", err, out)
	}
	for _, pattern := range []string{"boxes/*", "mirrors/.new-*", "mirrors/*.git/incoming-*", "mirrors/*.git/objects/pack/tmp_*"} {
		if left, err := filepath.Glob(filepath.Join(c.worker.home, pattern)); err != nil || len(left) > 0 {
			c.t.Errorf("%v is left, %v", left, err)
		}
	}
}
