package yielding

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"agentbox/agentbox/background"
)

// Sessions has all sessions below this process be as nice as it is: gVisor begins some for its sandbox and
// the guest's programs. It is called once they are there, in a process that Start has started.
func Sessions(ctx context.Context) error {
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // as 20 less the nice value
	if err != nil || priority >= 20 {
		return err
	}
	return sessions(ctx, os.Getpid(), 20-priority)
}

func sessions(ctx context.Context, of, nice int) error {
	all, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	children := map[int][]procfs.ProcStat{}
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // else it has ended
			children[s.PPID] = append(children[s.PPID], s)
		}
	}
	done := map[int]bool{}
	for left := []int{of}; len(left) > 0; left = left[1:] {
		for _, s := range children[left[0]] {
			left = append(left, s.PID)
			if !done[s.Session] {
				done[s.Session] = true
				err = errors.Join(err, niceSession(ctx, s.PID, nice))
			}
		}
	}
	return err
}

// Linux takes a nice value of a session ten times a second at most, of all users but root together.
const (
	sessionTries = 20
	sessionEvery = 110 * time.Millisecond
)

// niceSession sets the nice value of a process's session. A kernel without autogroups has none.
func niceSession(ctx context.Context, pid, nice int) (err error) {
	for range sessionTries {
		err = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "autogroup"), []byte(strconv.Itoa(nice)), 0)
		if !errors.Is(err, unix.EAGAIN) || !background.Sleep(ctx, sessionEvery) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
