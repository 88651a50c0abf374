package yielding

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox/resources"
	"agentbox/vmm/cgroup"
)

// spare is what a box may use beside its memory before Linux takes pages from it: its supervisor, and
// the machine's own.
const spare = 256 << 20

// Start starts a command, and whatever that starts, with the priority of a level, in a group for the
// box id that has so many bytes of memory. Where there is no group it has the priority only.
func Start(cmd *exec.Cmd, level resources.Yield, id string, memory int64) error {
	if level == resources.YieldNone {
		return cmd.Start()
	}
	if base, err := cgroup.Base(); err == nil {
		if dir, err := makeGroup(base, level, id, memory); err == nil {
			defer dir.Close()
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		}
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, and its priority, end with this goroutine
		err := lower(level)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	err := <-started
	if err == nil {
		_ = niceSession(context.Background(), cmd.Process.Pid, Nice(level)) // it runs, whatever it gets
	}
	return err
}

// lowest is the priority of I/O after everybody else's: best-effort (class 2), 7. The class below it
// may get nothing at all, and then no snapshot is ever complete.
const lowest = 2<<13 | 7

func lower(level resources.Yield) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, 0, lowest); errno != 0 {
		return errno
	}
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // as 20 less the nice value
	if err != nil {
		return err
	}
	to := max(Nice(level), 20-now) // who is niced more may not have less
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, to); err != nil {
		return err
	}
	if level != resources.YieldAll {
		return nil
	}
	// A program of the owner's that wakes up takes the CPU from one of this policy at once.
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: int32(to)}, 0)
}

func makeGroup(base string, level resources.Yield, id string, memory int64) (*os.File, error) {
	all := filepath.Join(base, cgroup.Others)
	box := filepath.Join(all, id)
	if err := os.MkdirAll(filepath.Join(box, cgroup.Main), 0o755); err != nil {
		return nil, err
	}
	for _, dir := range []string{base, all, box} {
		for _, controller := range []string{"cpu", "io", "memory", "pids"} {
			cgroup.Set(dir, "cgroup.subtree_control", "+"+controller) // one that is not delegated is missing below
		}
	}
	cgroup.Set(all, "cpu.idle", "0") // as an idle group's weight cannot be set
	cgroup.Set(all, "cpu.weight", map[bool]string{true: "1", false: "10"}[level == resources.YieldAll])
	if level == resources.YieldAll {
		cgroup.Set(all, "cpu.idle", "1")
	}
	cgroup.Set(all, "io.weight", "1")
	cgroup.Set(box, "memory.high", strconv.FormatInt(memory+spare, 10))
	return os.Open(filepath.Join(box, cgroup.Main))
}

// Remove removes the group of a box whose processes have ended, if it has one.
func Remove(id string) error {
	base, err := cgroup.Base()
	if err != nil {
		return nil
	}
	var all []string
	_ = filepath.WalkDir(filepath.Join(base, cgroup.Others, id), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(all) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

// Means says what this machine has: a control group, and which of its controllers.
func Means() (group bool, controllers []string) {
	base, err := cgroup.Base()
	if err != nil {
		return false, nil
	}
	return true, cgroup.Controllers(base)
}
