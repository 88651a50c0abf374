package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	killsEnv     = "AGENTBOX_CHAOS"      // how many processes TestChaos kills
	seedOfChaos  = "AGENTBOX_CHAOS_SEED" // of its random numbers, to reproduce a failure
	kindOfChaos  = "AGENTBOX_CHAOS_KIND" // of isolation; "" for every kind
	defaultKills = 12
	maxDelay     = 600 * time.Millisecond // from the start of an operation to the kill
	opTimeout    = 15 * time.Minute       // for any command, whatever was killed meanwhile; a busy machine is slow
)

// chaos runs random operations on boxes while it kills random processes of theirs.
type chaos struct {
	t      *testing.T
	kind   string // of isolation
	home   string
	rand   *rand.Rand
	repos  []string                   // each with at most one box of its own, and forks
	acked  map[string]map[string]bool // by box id: the lines that were reported as synced
	lines  int                        // written
	synced int                        // of these, reported as synced
	kills  map[string]int
}

// TestChaos kills, for each kind of isolation, clients, daemons, supervisors and machines at random
// moments of random operations. Afterwards the next command must work or return a clear error,
// every line that was reported as synced must exist, and no process may be orphaned.
func TestChaos(t *testing.T) {
	needPart(t, slow)
	kinds := testedKinds()
	if only := os.Getenv(kindOfChaos); only != "" {
		kinds = []string{only}
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			runChaos(t, kind)
		})
	}
}

func runChaos(t *testing.T, kind string) {
	kills, seed := numberFrom(t, killsEnv, defaultKills), numberFrom(t, seedOfChaos, uint64(time.Now().UnixNano()))
	t.Logf("%s=%s %s=%d %s=%d", kindOfChaos, kind, killsEnv, kills, seedOfChaos, seed)
	c := newChaos(t, kind, seed)
	for n := uint64(0); n < kills; {
		if c.step() {
			n++
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("killed: %v; lines synced: %d", c.kills, c.synced)
	c.checkAll()
}

// checkKills fails where only clients were killed: then the other processes were not recognized.
func (c *chaos) checkKills() {
	if c.kills["daemon"]+c.kills["supervisor"]+c.kills["machine"] == 0 {
		c.t.Errorf("nothing but clients was killed: %v", c.kills)
	}
}

func numberFrom(t *testing.T, name string, otherwise uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func newChaos(t *testing.T, kind string, seed uint64) *chaos {
	home, err := shared.newHome()
	if err != nil {
		t.Fatal(err)
	}
	return chaosIn(t, home, kind, seed)
}

func chaosIn(t *testing.T, home, kind string, seed uint64) *chaos {
	t.Cleanup(func() { shared.retire(t, home) })
	c := &chaos{t: t, kind: kind, home: home, rand: rand.New(rand.NewPCG(seed, 0)), acked: map[string]map[string]bool{}, kills: map[string]int{}}
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agentbox.yaml"), []byte(boxConfig), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "first"}} {
			if out, err := c.program(dir, "git", args...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		c.repos = append(c.repos, dir)
	}
	return c
}

func (c *chaos) program(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), shared.vars(c.home, c.kind)...)
	return cmd
}

// step starts an operation, kills something during it, and checks that the next command works. It
// reports whether something was killed.
func (c *chaos) step() bool {
	ops := []func() *operation{c.up, c.sync, c.sync, c.sync, c.pause, c.resume, c.fork, c.reset, c.checkpoint, c.rollback, c.remove}
	op := ops[c.rand.IntN(len(ops))]()
	if op == nil {
		return false
	}
	delay := time.Duration(c.rand.Int64N(int64(maxDelay)))
	victim := []string{"client", "daemon", "supervisor", "machine"}[c.rand.IntN(4)]
	op.start(c)
	time.Sleep(delay)
	killed := c.kill(victim, op)
	err := op.wait()
	what := victim + " killed"
	if !killed {
		what = "no " + victim
	}
	c.t.Logf("%-10s in %s, %s after %v: %s", op.what, filepath.Base(op.cmd.Dir), what, delay.Round(time.Millisecond), op.told(err))
	op.after(c, err)
	c.next(op)
	return killed
}

// operation is one running command.
type operation struct {
	what   string
	cmd    *exec.Cmd
	out    bytes.Buffer
	stderr bytes.Buffer
	done   func(c *chaos, op *operation, err error)
}

func (c *chaos) operation(dir, what string, args ...string) *operation {
	return &operation{what: what, cmd: c.program(dir, filepath.Join(shared.bin, "agentbox"), args...)}
}

func (op *operation) start(c *chaos) {
	op.cmd.Stdout, op.cmd.Stderr = &op.out, &op.stderr
	op.cmd.WaitDelay = time.Minute
	if err := op.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

var errStuck = errors.New("the command did not end")

func (op *operation) wait() error {
	var stuck bool
	timer := time.AfterFunc(opTimeout, func() {
		stuck = true
		_ = op.cmd.Process.Kill()
	})
	err := op.cmd.Wait()
	if !timer.Stop() && stuck {
		return errStuck
	}
	return err
}

func (op *operation) told(err error) string {
	if err == nil {
		return "it worked"
	}
	return fmt.Sprintf("%v: %s", err, strings.ReplaceAll(strings.TrimSpace(op.stderr.String()), "\n", " | "))
}

// after checks how the command ended: it succeeded, it was killed, or it printed what was wrong.
func (op *operation) after(c *chaos, err error) {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, errStuck):
		c.t.Errorf("%s did not end within %v", op.what, opTimeout)
	case err == nil || !errors.As(err, &exit) || exit.ExitCode() == -1:
	case !strings.Contains(op.stderr.String(), "agentbox: "):
		c.t.Errorf("%s failed without a clear error: %v\n%s", op.what, err, op.stderr.String())
	}
	if strings.Contains(op.stderr.String(), "goroutine ") {
		c.t.Errorf("%s printed a stack:\n%s", op.what, op.stderr.String())
	}
	if op.done != nil {
		op.done(c, op, err)
	}
}

// next runs the command that a user would run next. If a box cannot be resumed, it resets the box,
// as the error suggests.
func (c *chaos) next(op *operation) {
	dir := op.cmd.Dir
	out, err := c.insist(dir, "up", "-q")
	if err != nil && strings.Contains(out, "agentbox reset") {
		if out, err = c.insist(dir, "reset", "-q"); err == nil {
			out, err = c.insist(dir, "up", "-q")
		}
	}
	if err != nil {
		c.t.Errorf("up after %s: %v\n%s", op.what, err, out)
		return
	}
	c.check(dir, strings.TrimSpace(out))
}

// insist runs a command that may meet a process which is just ending. Then the command must fail
// with a hint, and succeed after a few retries.
func (c *chaos) insist(dir string, args ...string) (out string, err error) {
	for range 5 {
		out, err = c.run(dir, args...)
		if err == nil || !strings.Contains(out, "agentbox: ") || !strings.Contains(out, "hint: ") || strings.Contains(out, "agentbox reset") {
			return out, err
		}
		time.Sleep(200 * time.Millisecond)
	}
	return out, err
}

func (c *chaos) run(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), opTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(shared.bin, "agentbox"), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), shared.vars(c.home, c.kind)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out) + stderr.String(), err
	}
	return string(out), nil
}

// kill kills the victim and reports whether there was one.
func (c *chaos) kill(victim string, op *operation) bool {
	var pids []int
	switch victim {
	case "client":
		pids = []int{op.cmd.Process.Pid}
	case "daemon":
		pids = c.daemons()
	default:
		for _, pid := range c.supervisors() {
			if victim == "supervisor" {
				pids = append(pids, pid)
			} else {
				pids = append(pids, machineOf(pid)...)
			}
		}
	}
	if len(pids) == 0 {
		return false
	}
	if err := syscall.Kill(pids[c.rand.IntN(len(pids))], syscall.SIGKILL); err != nil {
		return false
	}
	c.kills[victim]++
	return true
}

// daemons and supervisors find processes by their command lines and their home.
func (c *chaos) daemons() []int     { return c.serving("agentbox daemon -client ") }
func (c *chaos) supervisors() []int { return c.serving("agentbox supervise") }

func (c *chaos) serving(command string) []int {
	all, err := processesOf(c.home)
	if err != nil {
		c.t.Fatal(err)
	}
	var pids []int
	for pid, p := range all {
		if strings.Contains(p.command, command) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// machineOf lists the processes of a supervisor's machine: QEMU, or the launcher with the sandbox
// and its file server. It leaves out the processes in which gVisor runs the guest's code; gVisor
// manages them.
func machineOf(supervisor int) []int {
	pids := children(supervisor)
	for _, pid := range slices.Clone(pids) {
		pids = append(pids, children(pid)...)
	}
	return pids
}

func children(pid int) []int {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var pids []int
	for _, path := range found {
		b, _ := os.ReadFile(path) // the thread may have ended
		for field := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
