package container

import (
	"bufio"
	"bytes"
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

	"golang.org/x/sys/unix"

	"agentbox/vmm"
)

// group is the control group (version 2) of one machine. Its limits are in a directory that the box
// does not see; below is the one that is the root of the box's view, with the same limits for programs
// that look.
type group struct {
	dir    string
	memory bool // the kernel holds the machine to its memory
	pids   bool // and to a number of processes
}

// inGroup is the directory of a group in which the processes are.
const inGroup = "box"

// errNoGroups says why machines have no control groups here.
var errNoGroups = errors.New("no control group (version 2) here is this user's")

// groupsBase is the highest group in which this process may make others and move its processes: for
// root that of the host, for a user the one that systemd has delegated to its manager.
func groupsBase() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	top := cgroupMount(mounts)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	if top == "" {
		return "", errNoGroups
	}
	best := ""
	for dir := filepath.Join(top, groupPath(own)); strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		if unix.Access(dir, unix.W_OK) != nil || unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
			break
		}
		best = dir
	}
	if best == "" {
		return "", errNoGroups
	}
	return best, nil
}

// cgroupMount finds where the hierarchy is mounted, in the text of mountinfo (proc(5)); "" if
// nowhere.
func cgroupMount(mountinfo []byte) string {
	for lines := bufio.NewScanner(bytes.NewReader(mountinfo)); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if kind, _, _ := strings.Cut(after, " "); kind == "cgroup2" && len(fields) > 4 && fields[3] == "/" {
			return fields[4]
		}
	}
	return ""
}

// groupPath is the path of a process in the hierarchy, in the text of /proc/PID/cgroup.
func groupPath(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return "/"
}

// newGroup makes the group of a machine, with what limits the kernel has there.
func newGroup(spec vmm.Spec) (*group, error) {
	base, err := groupsBase()
	if err != nil {
		return nil, err
	}
	h := fnv.New32a()
	io.WriteString(h, spec.Dir)
	g := &group{dir: filepath.Join(base, groupName, fmt.Sprintf("%s-%08x", strings.ReplaceAll(spec.Name, "/", "-"), h.Sum32()))}
	// One that an earlier machine left is made anew: whatever is started in a group that was ever
	// killed dies at once (Linux 6.18).
	set(g.dir, "cgroup.kill", "1")
	if err := errors.Join(g.remove(), os.MkdirAll(filepath.Join(g.dir, inGroup), 0o755)); err != nil {
		return nil, err
	}
	for _, dir := range []string{base, filepath.Dir(g.dir), g.dir} {
		for _, controller := range []string{"memory", "pids", "cpu"} {
			set(dir, "cgroup.subtree_control", "+"+controller) // one that is not delegated is missing below
		}
	}
	for _, dir := range []string{g.dir, filepath.Join(g.dir, inGroup)} {
		g.memory = set(dir, "memory.max", strconv.FormatInt(spec.Memory, 10))
		set(dir, "memory.swap.max", "0")
		g.pids = set(dir, "pids.max", strconv.Itoa(maxProcesses))
		set(dir, "cpu.max", strconv.Itoa(spec.CPUs*100000)+" 100000")
	}
	return g, nil
}

// maxProcesses is how many processes and threads a machine may have, whatever its configuration
// says.
const maxProcesses = 32768

// set writes a file of a group, and tells whether it could.
func set(dir, name, value string) bool {
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0) == nil
}

// open opens the directory in which the machine's first process is to start.
func (g *group) open() (*os.File, error) { return os.Open(filepath.Join(g.dir, inGroup)) }

// freezeTimeout is how long a machine may take to stop: a process in disk I/O stops after it.
const freezeTimeout = 20 * time.Second

// freeze stops or continues every process, and waits until they have stopped.
func (g *group) freeze(frozen bool) error {
	value := map[bool]string{true: "1", false: "0"}[frozen]
	if !set(g.dir, "cgroup.freeze", value) {
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
