//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// cgroups is the tree (cgroup v2) of everything that is the user's: <dir>/user for sessions,
// <dir>/services/<name>. Lock order: mu before gate. gate is read-locked while a process is
// started, and write-locked from freeze to thaw.
type cgroups struct {
	dir string

	gate   sync.RWMutex
	mu     sync.Mutex
	frozen bool // no user process runs
	empty  bool // because there is none: the kernel was not asked to freeze any
	pids   int  // the limit in force, 0 when it is not known
}

const (
	cgroupRoot  = "/sys/fs/cgroup"
	boxGroup    = cgroupRoot + "/box"
	defaultPIDs = 4096 // processes of a box whose configuration says nothing
)

// reservedMemory is memory that the box's processes cannot have, so that the agent can always
// answer: in bytes, for a machine with total.
func reservedMemory(total int64) int64 { return max(24<<20, total/32) }

// setUpCgroups makes the box's groups with their limits. The agent stays outside; the kernel never
// kills PID 1. Without memory.oom.group the kernel kills one process and not the whole box.
func setUpCgroups() error {
	if err := write(cgroupRoot+"/cgroup.subtree_control", "+memory +pids"); err != nil {
		return err
	}
	g := &cgroups{dir: boxGroup}
	for _, dir := range []string{"", "services", sessionGroup} {
		if err := os.MkdirAll(filepath.Join(g.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(g.dir, "memory.oom.group"), "0"); err != nil {
		return err
	}
	total, _, err := memory()
	if err != nil {
		return err
	}
	if err := write(filepath.Join(g.dir, "memory.max"), strconv.FormatInt(total-reservedMemory(total), 10)); err != nil {
		return err
	}
	return g.limit(0)
}

// write writes a value to an existing file of the kernel in one write. It creates no file.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// limit sets how many processes the box may have, the default for 0. It does not write a limit that
// is in force, which saves each clone the call.
func (c *cgroups) limit(pids int) error {
	if pids <= 0 {
		pids = defaultPIDs
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pids == pids {
		return nil
	}
	err := write(filepath.Join(c.dir, "pids.max"), strconv.Itoa(pids))
	if err == nil {
		c.pids = pids
	}
	return err
}

// join returns the directory of a group for a new process, made where it is missing, and a function
// to call when the process has started. path is below the box's group; the caller starts the
// process with UseCgroupFD. It waits while user processes are frozen: a process that is frozen
// before its exec would hold up its parent, the agent.
func (c *cgroups) join(path string) (*os.File, func(), error) {
	c.gate.RLock()
	dir := filepath.Join(c.dir, path)
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Open(dir); err == nil {
			return f, func() { f.Close(); c.gate.RUnlock() }, nil
		}
	}
	c.gate.RUnlock()
	return nil, nil, err
}

// freezeTimeout is how long user processes may take to stop: one in disk I/O stops after it.
const freezeTimeout = 20 * time.Second

// freeze stops every user process, and the start of new ones until thaw. Without any process it
// does not ask the kernel, which saves each clone the call. Idempotent.
func (c *cgroups) freeze() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen {
		return nil
	}
	// Processes that are being started are waited for: one that appears after the freeze would run.
	c.gate.Lock() // waits for processes that are being started, which would run on
	if err := c.freezeKernel(); err != nil {
		c.gate.Unlock()
		return err
	}
	c.frozen = true
	return nil
}

// freezeKernel asks the kernel and waits. It undoes a freeze that takes too long.
func (c *cgroups) freezeKernel() error {
	if c.empty = readNumber(filepath.Join(c.dir, "pids.current"), "") == 0; c.empty {
		return nil
	}
	if err := write(filepath.Join(c.dir, "cgroup.freeze"), "1"); err != nil {
		return err
	}
	if !c.await("frozen 1", freezeTimeout) {
		err := fmt.Errorf("user processes did not stop within %v", freezeTimeout)
		return errors.Join(err, write(filepath.Join(c.dir, "cgroup.freeze"), "0"))
	}
	return nil
}

// thaw lets user processes run, and new ones start. Idempotent.
func (c *cgroups) thaw() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen {
		return nil
	}
	if !c.empty {
		if err := write(filepath.Join(c.dir, "cgroup.freeze"), "0"); err != nil {
			return err
		}
	}
	c.frozen = false
	c.gate.Unlock()
	return nil
}

// killTimeout bounds the wait for killed processes, one of which may be stuck in the kernel.
const killTimeout = 20 * time.Second

// kill ends every process of the box at once, those included that fork meanwhile, and waits until
// they are gone. Without any process it does not ask the kernel: Linux 6.1 was seen to kill what a
// machine of the pool started in the group much later.
func (c *cgroups) kill() error {
	if c.await("populated 0", 0) {
		return nil
	}
	err := write(filepath.Join(c.dir, "cgroup.kill"), "1")
	if !c.await("populated 0", killTimeout) {
		err = errors.Join(err, errors.New("processes are left after SIGKILL"))
	}
	return err
}

// processes lists the box's processes, some of which may have ended when it returns.
func (c *cgroups) processes() []int {
	var pids []int
	filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error { // a group that is gone has no processes
		if err == nil && d.Name() == "cgroup.procs" {
			pids = append(pids, pidsIn(path)...)
		}
		return nil
	})
	return pids
}

// pidsIn reads a file of process ids; none if there is no file.
func pidsIn(path string) (pids []int) {
	text, _ := os.ReadFile(path)
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// await waits until cgroup.events has a line, such as "frozen 1"; false after limit.
func (c *cgroups) await(line string, limit time.Duration) bool {
	return poll(limit, func() bool {
		text, err := os.ReadFile(filepath.Join(c.dir, "cgroup.events"))
		return err == nil && strings.Contains(string(text), line+"\n")
	})
}

// poll waits until cond is true, at first in short steps, and returns false after limit.
func poll(limit time.Duration, cond func() bool) bool {
	step := 500 * time.Microsecond
	for deadline := time.Now().Add(limit); !cond(); time.Sleep(step) {
		if time.Now().After(deadline) {
			return false
		}
		step = min(2*step, 20*time.Millisecond)
	}
	return true
}

// readNumber reads a file with one number, or the number after key in a file of "key number" lines.
// It is 0 without such a number, which "max" is not either.
func readNumber(path, key string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		k, v, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found && key == "" {
			v = k
		} else if k != key {
			continue
		}
		n, _ := strconv.Atoi(v)
		return n
	}
	return 0
}
