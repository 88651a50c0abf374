package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEnterChaos has one machine enter a box of another, both homes on loopback, and kills the command,
// daemons, supervisors and machines of both at random moments, restarts daemons, has the other machine
// fall silent, and fills the disk. Entering gives all of the work, or says
// what failed and leaves nothing; the next time it works, and the box that is entered stays as it was.
func TestEnterChaos(t *testing.T) {
	needPart(t, nightly)
	t.Parallel()
	kills, seed := numberFrom(t, killsEnv, fleetKills), numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d %s=%d", killsEnv, kills, seedOfChaos, seed)
	c := &enterChaos{fleetChaos: fleetChaos{taskChaos: taskChaos{chaos: newChaos(t, "gvisor", seed)}, worker: taskChaos{chaos: chaosIn(t, smallHome(t), "gvisor", seed+1)}}}
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
	undo, fault := func() {}, []string{"kill", "kill", "client", "restart", "silence", "full"}[c.rand.IntN(6)]
	switch fault {
	case "kill":
		c.strike()
	case "client":
		_ = syscall.Kill(op.cmd.Process.Pid, syscall.SIGKILL)
	case "restart":
		on := []*taskChaos{&c.taskChaos, &c.worker}[c.rand.IntN(2)]
		_, _ = on.run(on.dir, "daemon", "stop")
	case "silence":
		undo = c.silence()
	case "full":
		undo = c.worker.fill(c.rand.Int64N(1 << 20))
	}
	c.worker.kills[fault]++
	err := op.wait()
	undo()
	c.t.Logf("%s, enter: %s", fault, op.told(err))
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

// silence stops the daemon of the owner, as a network does that was cut, until undo is called.
func (c *enterChaos) silence() (undo func()) {
	pids := c.daemons()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// smallDisk is how many bytes the home has for which fill works.
const smallDisk = 1 << 30

// smallHome is a home on a disk of its own, if that can be had.
func smallHome(t *testing.T) string {
	home, err := shared.newHome()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return home
	}
	disk := home + "-disk"
	if err := errors.Join(os.Mkdir(disk, 0o711), syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("mode=711,size=%d", smallDisk))); err != nil {
		t.Log("no disk is filled: ", err)
		return home
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(disk, 0), os.Remove(disk)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(copyTree(filepath.Join(disk, "h"), home), os.RemoveAll(home)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(disk, "h")
}

// fill leaves so many bytes of the disk of a smallHome, until undo is called.
func (c *chaos) fill(left int64) (undo func()) {
	var fs syscall.Statfs_t
	at := filepath.Join(filepath.Dir(c.home), "full")
	if err := syscall.Statfs(c.home, &fs); err != nil {
		c.t.Fatal(err)
	}
	if int64(fs.Blocks)*int64(fs.Bsize) > smallDisk {
		return func() {}
	}
	f, err := os.Create(at)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	// What runs meanwhile writes, too.
	for size := int64(fs.Bavail)*int64(fs.Bsize) - left; size > 0; size -= 1 << 20 {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err == nil {
			break
		} else if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EINTR) {
			c.t.Fatal(err)
		}
	}
	for page := make([]byte, 4096); left == 0; {
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			c.t.Fatal(err)
		}
		if _, err := f.Write(page); err != nil {
			break // nothing is left
		}
	}
	return func() { _ = os.Remove(at) }
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
