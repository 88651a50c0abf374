package userns

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/child"
)

// Namespaces are the new namespaces of a launcher. As it is the first process of a PID namespace,
// everything ends with it.
const Namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// Start starts the launcher, which waits for its ids. When it has been reaped, no process
// of its namespaces is left. files are its descriptors from 3 on and stay the caller's. stderr may
// be nil.
func Start(program string, stderr *os.File, files []*os.File) (*child.Process, error) {
	cmd := Command(program)
	cmd.ExtraFiles = files
	if stderr != nil {
		cmd.Stderr = stderr
	}
	return child.Start(cmd, nil)
}

// Command is a launcher that nobody has started. Its environment is empty, and it starts in /. Its
// capabilities are ambient, so that it keeps them across exec although it has no ids yet.
func Command(program string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  Namespaces,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_CHOWN, unix.CAP_FOWNER},
	}
	return cmd
}

// Tree lists a process and then its descendants. Processes come and go meanwhile, so use it
// for accounting only and never to kill.
func Tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		threads := "/proc/" + strconv.Itoa(all[i]) + "/task/"
		entries, _ := os.ReadDir(threads)
		for _, e := range entries {
			text, _ := os.ReadFile(threads + e.Name() + "/children") // a thread that is gone has no children
			for field := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(field); err == nil && !slices.Contains(all, child) {
					all = append(all, child)
				}
			}
		}
	}
	return all
}
