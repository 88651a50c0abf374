package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The lowest priorities that Linux has: of processor time, and the class of I/O that is done when
// nobody else wants any (ioprio_set(2)).
const (
	lowest      = 19
	ioWhoThread = 1
	ioIdleClass = 3 << 13
)

// yield has the threads of processes, and what these start later, run only on what others leave. Linux
// compares nice values within a session only (sched(7), autogroup), so the session gets one, too.
func yield(pids []int) (err error) {
	for _, pid := range pids {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // none of a process that has ended
		for _, dir := range tasks {
			tid, _ := strconv.Atoi(filepath.Base(dir))
			_, _, failed := unix.Syscall(unix.SYS_IOPRIO_SET, ioWhoThread, uintptr(tid), ioIdleClass)
			for _, e := range []error{unix.Setpriority(unix.PRIO_PROCESS, tid, lowest), failed} {
				if e != nil && e != unix.Errno(0) && e != unix.ESRCH {
					err = errors.Join(err, fmt.Errorf("thread %d: %w", tid, e))
				}
			}
		}
		group := fmt.Sprintf("/proc/%d/autogroup", pid)
		nice := " nice " + strconv.Itoa(lowest)
		if text, readErr := os.ReadFile(group); readErr == nil && len(text) > 0 && !strings.HasSuffix(strings.TrimSpace(string(text)), nice) {
			err = errors.Join(err, os.WriteFile(group, []byte(strconv.Itoa(lowest)), 0))
		}
	}
	return err
}
