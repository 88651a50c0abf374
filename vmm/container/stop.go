package container

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/vmm/userns"
)

// stopAll stops every process of the machine by a signal, for a host whose control groups are not
// ours, and returns when all have stopped: those that are forked meanwhile, too. stopped gets those
// that it stopped, as it may be called again after an error.
func stopAll(pid int, stopped map[int]bool) error {
	return await(freezeTimeout, func() bool {
		all := true
		for _, p := range userns.Tree(pid) {
			switch processState(p) {
			case 'T', 't', 'Z', 'X', 0:
			default:
				all = false
				if signal(p, unix.SIGSTOP) == nil {
					stopped[p] = true
				}
			}
		}
		return all
	})
}

// continueAll lets go on what stopAll stopped, and nothing that the box itself has stopped.
func continueAll(stopped map[int]bool) {
	for p := range stopped {
		signal(p, unix.SIGCONT) // an error means that it has ended
		delete(stopped, p)
	}
}

// signal signals a process of the machine that is stopped, so keeps its number, or a child.
func signal(pid int, s unix.Signal) error { return unix.Kill(pid, s) }

// processState is the letter of /proc/PID/stat, 0 if the process has ended.
func processState(pid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ") // the name before may have anything in it
	if i := strings.LastIndex(string(text), ") "); i >= 0 {
		after = string(text)[i+2:]
	}
	if after == "" {
		return 0
	}
	return after[0]
}
