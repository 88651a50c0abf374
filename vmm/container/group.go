package container

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentbox/vmm"
	"agentbox/vmm/cgroup"
)

// group is the control group (version 2) of one machine. Its limits are in a directory that the box
// does not see; below is the one that is the root of the box's view, with the same limits for programs
// that look.
type group struct {
	dir    string
	memory bool // the kernel holds the machine to its memory
}

// inGroup is the directory of a group in which the processes are.
const inGroup = "box"

func newGroup(spec vmm.Spec) (*group, error) {
	parent, err := cgroup.Parent()
	if err != nil {
		return nil, err
	}
	h := fnv.New32a()
	io.WriteString(h, spec.Dir)
	g := &group{dir: filepath.Join(parent, fmt.Sprintf("%s-%08x", strings.ReplaceAll(spec.Name, "/", "-"), h.Sum32()))}
	// One that an earlier machine left is made anew: whatever is started in a group that was ever
	// killed dies at once (Linux 6.18).
	cgroup.Set(g.dir, "cgroup.kill", "1")
	if err := errors.Join(g.remove(), os.MkdirAll(filepath.Join(g.dir, inGroup), 0o755)); err != nil {
		return nil, err
	}
	for _, dir := range []string{filepath.Dir(parent), parent, g.dir} {
		for _, controller := range []string{"memory", "pids", "cpu"} {
			cgroup.Set(dir, "cgroup.subtree_control", "+"+controller) // one that is not delegated is missing below
		}
	}
	for _, dir := range []string{g.dir, filepath.Join(g.dir, inGroup)} {
		g.memory = cgroup.Set(dir, "memory.max", strconv.FormatInt(spec.Memory, 10))
		cgroup.Set(dir, "memory.swap.max", "0")
		cgroup.Set(dir, "pids.max", strconv.Itoa(maxProcesses))
		cgroup.Set(dir, "cpu.max", strconv.Itoa(spec.CPUs*100000)+" 100000")
	}
	return g, nil
}

// maxProcesses is how many processes and threads a machine may have, whatever it asks for.
const maxProcesses = 32768

// open opens the directory in which the machine's first process is to start.
func (g *group) open() (*os.File, error) { return os.Open(filepath.Join(g.dir, inGroup)) }

// freezeTimeout is how long a machine may take to stop: a process in disk I/O stops after it.
const freezeTimeout = 20 * time.Second

// freeze stops or continues every process, and waits until they have stopped.
func (g *group) freeze(frozen bool) error {
	value := map[bool]string{true: "1", false: "0"}[frozen]
	if !cgroup.Set(g.dir, "cgroup.freeze", value) {
		return fmt.Errorf("%s cannot be written", filepath.Join(g.dir, "cgroup.freeze"))
	}
	return await(freezeTimeout, func() bool {
		text, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
		return strings.Contains(string(text), "frozen "+value)
	})
}

// remove removes the group, when its last process has been reaped.
func (g *group) remove() error {
	return await(freezeTimeout, func() bool {
		for _, dir := range []string{filepath.Join(g.dir, inGroup), g.dir} {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
		return true
	})
}

// await calls done until it is true, at first in short steps, and fails after limit.
func await(limit time.Duration, done func() bool) error {
	step := 200 * time.Microsecond
	for deadline := time.Now().Add(limit); !done(); time.Sleep(step) {
		if time.Now().After(deadline) {
			return fmt.Errorf("it takes longer than %v", limit)
		}
		step = min(2*step, 20*time.Millisecond)
	}
	return nil
}
