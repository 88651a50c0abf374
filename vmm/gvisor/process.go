package gvisor

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

// namespaces are all new. The network one has nothing but a loopback interface. The launcher is
// thereby the first process of a PID namespace, which is what ends everything with it.
const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// startLauncher runs the launcher with the given descriptors from 3 on, which stay the caller's. It
// waits for its ids. It is the first process of its namespaces: when it has been reaped, no process
// of them is left.
//
// It keeps its capabilities across exec, although it has no ids yet, as ambient ones.
//
// stderr may be nil. Its environment is empty, and it starts in /.
func startLauncher(program string, stderr *os.File, files []*os.File) (*child.Process, error) {
	cmd := exec.Command(program)
	cmd.ExtraFiles = files
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  namespaces,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_DAC_OVERRIDE, unix.CAP_CHOWN, unix.CAP_FOWNER},
	}
	return child.Start(cmd, nil)
}

// family lists a process and its descendants, the process first. It reads /proc while processes
// come and go, so it is a picture for accounting and never a list to kill by.
func family(pid int) []int {
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
