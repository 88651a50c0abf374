//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/gvisor/plan"
)

// startSandbox runs the command that starts the sandbox and waits for it to end. The sandbox goes on as a child of this
// process, which the kernel makes the parent of every orphan of the namespace.
func (l *launcher) startSandbox() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: "/", Env: l.plan.Env, Files: []uintptr{plan.FDInput, plan.FDOutput, plan.FDConsole}}
	for fd := uintptr(3); fd < plan.FDFirst; fd++ {
		attr.Files = append(attr.Files, null.Fd()) // so that what follows keeps its number
	}
	for i := range l.plan.Files {
		attr.Files = append(attr.Files, uintptr(plan.FDFirst+i))
	}
	pid, err := syscall.ForkExec(l.plan.Argv[0], l.plan.Argv, attr)
	if err != nil {
		return fmt.Errorf("%s: %w", l.plan.Argv[0], err)
	}
	l.ended = map[int]syscall.WaitStatus{}
	for _, running := l.ended[pid]; !running; _, running = l.ended[pid] {
		if err := l.reap(); err != nil {
			return err
		}
	}
	if status := l.ended[pid]; !status.Exited() || status.ExitStatus() != 0 {
		return fmt.Errorf("runsc ended with %s", describe(status))
	}
	for fd := plan.FDInput; fd < plan.FDFirst+l.plan.Files; fd++ {
		syscall.Close(fd) // they are the sandbox's now: its end must be the end of the stream
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

// connect hands over a connection to the sandbox, and the cable, together with the news that it runs. Only root of this user namespace may
// connect.
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

// wait reaps until the sandbox has ended.
func (l *launcher) wait() plan.End {
	for {
		if status, ok := l.ended[l.sandbox]; ok {
			if status.Signaled() {
				return plan.End{Signal: int(status.Signal())}
			}
			return plan.End{Status: status.ExitStatus()}
		}
		clear(l.ended) // orphans nobody asks about
		if err := l.reap(); err != nil {
			return plan.End{Status: 1}
		}
	}
}

// reap waits for any child.
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
