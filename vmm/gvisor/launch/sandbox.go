//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/gvisor/plan"
)

// startSandbox runs the command that starts the sandbox and waits for its end. The sandbox is then
// an orphan, and so a child of this process. The command writes the sandbox's process id into
// Plan.Pid. The plan's files keep their numbers, by which the links of a restore name them.
func (l *launcher) startSandbox() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: "/", Env: l.plan.Env, Files: []uintptr{plan.FDInput, plan.FDOutput, plan.FDConsole}}
	for fd := uintptr(3); fd < plan.FDFirst; fd++ {
		attr.Files = append(attr.Files, null.Fd()) // so that the files keep their numbers
	}
	for i := range l.plan.Files {
		attr.Files = append(attr.Files, uintptr(plan.FDFirst+i))
	}
	pid, err := syscall.ForkExec(l.plan.Argv[0], l.plan.Argv, attr)
	if err != nil {
		return fmt.Errorf("%s: %w", l.plan.Argv[0], err)
	}
	l.ended = map[int]syscall.WaitStatus{}
	for _, ended := l.ended[pid]; !ended; _, ended = l.ended[pid] {
		if err := l.reap(); err != nil {
			return err
		}
	}
	if status := l.ended[pid]; !status.Exited() || status.ExitStatus() != 0 {
		return fmt.Errorf("runsc ended with %s", describe(status))
	}
	for fd := plan.FDInput; fd < plan.FDFirst+l.plan.Files; fd++ {
		syscall.Close(fd) // so that the stream ends with the sandbox
	}
	text, err := os.ReadFile(l.plan.Pid)
	if err != nil {
		return err
	}
	l.sandbox, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return err
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal " + s.Signal().String()
	}
	return "exit status " + strconv.Itoa(s.ExitStatus())
}

// connect connects to the sandbox, which only root of this user namespace may, and sends the
// connection and the cable to the supervisor with Event.Started.
func (l *launcher) connect() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: l.plan.Dial}); err != nil {
		return fmt.Errorf("%s: %w", l.plan.Dial, err)
	}
	files := []int{fd}
	if l.noCard == "" {
		files = append(files, l.cable)
		defer unix.Close(l.cable)
	}
	line, err := json.Marshal(plan.Event{Started: true, NoCard: l.noCard})
	if err != nil {
		return err
	}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(plan.FDControl, append(line, '\n'), unix.UnixRights(files...), nil, 0))
}

// orphanGrace is how long a sandbox may outlive its file server, which may end just before it by itself.
const orphanGrace = 5 * time.Second

// wait reaps until the sandbox has ended. The other child is its file server. Without that, the guest
// reads nothing of its workspace any more and goes on, so wait ends the sandbox, too: at once if
// something has killed the file server.
func (l *launcher) wait() plan.End {
	orphan := false
	others := children()
	for {
		if status, ok := l.ended[l.sandbox]; ok {
			end := plan.End{Orphan: orphan}
			if status.Signaled() {
				end.Signal = int(status.Signal())
			} else {
				end.Status = status.ExitStatus()
			}
			return end
		}
		for pid, status := range l.ended {
			if orphan || !slices.Contains(others, pid) {
				continue
			}
			orphan = true
			if status.Signaled() {
				syscall.Kill(l.sandbox, syscall.SIGKILL)
			} else {
				time.AfterFunc(orphanGrace, func() { syscall.Kill(l.sandbox, syscall.SIGKILL) })
			}
		}
		clear(l.ended) // of other orphans
		if err := l.reap(); err != nil {
			return plan.End{Status: 1}
		}
	}
}

// children lists the children of the main thread, which forks all of them.
func children() []int {
	var pids []int
	text, _ := os.ReadFile("/proc/self/task/1/children")
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// reap waits for the end of any child and records it in l.ended. It fails if there is no child.
func (l *launcher) reap() error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("wait4", err)
		}
		if status.Exited() || status.Signaled() {
			l.ended[pid] = status
		}
		return nil
	}
}
