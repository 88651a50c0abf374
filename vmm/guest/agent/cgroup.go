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

// cgroups is the tree of everything that is the user's: <dir>/user for sessions,
// <dir>/services/<name>. It is cgroup v2, mounted by mountTemporary. Lock order: mu before gate.
// gate is held for writing from freeze to thaw, across calls.
type cgroups struct {
	dir string

	gate   sync.RWMutex // read-locked while a process is started, write-locked for as long as none may be
	mu     sync.Mutex
	frozen bool // no user process runs
	empty  bool // because there is none: the kernel was not asked to freeze any
	pids   int  // the limit in force, 0 when it is not known
}

const (
	cgroupRoot = "/sys/fs/cgroup"
	boxGroup   = cgroupRoot + "/box"
	// How many processes a box may have where its configuration says nothing.
	defaultPIDs = 4096
)

// reserve is memory that the box's processes cannot have, so that the agent can always answer.
// total is the machine's memory, both in bytes: a 32nd of it, and 24 MiB at least.
func reserve(total int64) int64 { return max(24<<20, total/32) }

// setUpCgroups makes the box's group with its limits. The agent stays outside, and as PID 1 the
// kernel never kills it. memory.oom.group is off, so that the kernel ends one process and not the
// whole box. Services and sessions have groups of their own below it.
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
	if err := write(filepath.Join(g.dir, "memory.max"), strconv.FormatInt(total-reserve(total), 10)); err != nil {
		return err
	}
	return g.limit(0)
}

func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// limit sets how many processes the box may have, the default for 0. A limit that is in force is
// not written again, which spares a clone the call.
func (g *cgroups) limit(pids int) error {
	if pids <= 0 {
		pids = defaultPIDs
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pids == pids {
		return nil
	}
	err := write(filepath.Join(g.dir, "pids.max"), strconv.Itoa(pids))
	if err == nil {
		g.pids = pids
	}
	return err
}

// join gives the directory of a group for a new process, and a function to call when the process
// has been started. It waits while user processes are stopped: one that is frozen before its
// program runs would hold up who started it. path is below the box's group and made where it is
// missing. The caller starts the process with UseCgroupFD, so it is born in the group.
func (g *cgroups) join(path string) (*os.File, func(), error) {
	g.gate.RLock()
	dir := filepath.Join(g.dir, path)
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Open(dir); err == nil {
			return f, func() { f.Close(); g.gate.RUnlock() }, nil
		}
	}
	g.gate.RUnlock()
	return nil, nil, err
}

// freezeTimeout is how long user processes may take to stop: one that waits for a disk stops when
// it is served.
const freezeTimeout = 20 * time.Second

// freeze stops every user process. Without any there is nothing to stop, which spares a clone the
// asking. Idempotent. No process can be started until thaw.
func (g *cgroups) freeze() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen {
		return nil
	}
	// Processes that are being started are waited for: one that appears after the freeze would run.
	g.gate.Lock()
	if err := g.freezeKernel(); err != nil {
		g.gate.Unlock()
		return err
	}
	g.frozen = true
	return nil
}

// freezeKernel asks the kernel and waits until it has happened; a freeze that takes too long is
// taken back.
func (g *cgroups) freezeKernel() error {
	if g.empty = number(filepath.Join(g.dir, "pids.current"), "") == 0; g.empty {
		return nil
	}
	if err := write(filepath.Join(g.dir, "cgroup.freeze"), "1"); err != nil {
		return err
	}
	if !g.await("frozen 1", freezeTimeout) {
		err := fmt.Errorf("user processes did not stop within %v", freezeTimeout)
		return errors.Join(err, write(filepath.Join(g.dir, "cgroup.freeze"), "0"))
	}
	return nil
}

// thaw lets user processes run, and new ones start. Idempotent.
func (g *cgroups) thaw() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.frozen {
		return nil
	}
	if !g.empty {
		if err := write(filepath.Join(g.dir, "cgroup.freeze"), "0"); err != nil {
			return err
		}
	}
	g.frozen = false
	g.gate.Unlock()
	return nil
}

// killTimeout bounds the wait for killed processes: one stuck in the kernel must not hold up the
// agent.
const killTimeout = 20 * time.Second

// kill ends every process of the box. Where there is none the kernel is not asked: 6.1 was seen to
// kill what a machine of the pool started in the group much later, too. It waits until they are
// gone. Processes that fork meanwhile are killed, too: the kernel does that in one go.
func (g *cgroups) kill() error {
	if g.await("populated 0", 0) {
		return nil
	}
	err := write(filepath.Join(g.dir, "cgroup.kill"), "1")
	if !g.await("populated 0", killTimeout) {
		err = errors.Join(err, errors.New("processes are left after SIGKILL"))
	}
	return err
}

// processes lists the box's processes. It is a picture: they may have ended when it returns.
func (g *cgroups) processes() []int {
	var pids []int
	filepath.WalkDir(g.dir, func(path string, d fs.DirEntry, err error) error { // a group that is gone has no processes
		if err == nil && d.Name() == "cgroup.procs" {
			pids = append(pids, pidsIn(path)...)
		}
		return nil
	})
	return pids
}

// pidsIn reads a file of process ids, none when it is not there.
func pidsIn(path string) (pids []int) {
	text, _ := os.ReadFile(path)
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (g *cgroups) await(line string, limit time.Duration) bool {
	return poll(limit, func() bool {
		text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
		return err == nil && strings.Contains(string(text), line+"\n")
	})
}

// poll asks until it is so, or limit has passed, which is false. The steps are short at first: most
// often it is so at once.
func poll(limit time.Duration, so func() bool) bool {
	step := 500 * time.Microsecond
	for deadline := time.Now().Add(limit); !so(); time.Sleep(step) {
		if time.Now().After(deadline) {
			return false
		}
		step = min(2*step, 20*time.Millisecond)
	}
	return true
}

// number reads a file with one number ("max" is none), or the number after key in a file of "key
// number" lines; 0 when it is not there.
func number(path, key string) int {
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
