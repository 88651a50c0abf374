//go:build linux

// Package launch is the first process of a container's namespaces, until it becomes the guest agent.
// It makes a root with nothing of the host but what the container needs, the network card, and the
// limits of what the box may ask the kernel for; then it runs the agent in its own place. It holds no
// rights of the host.
//
// The driver (vmm/container) starts it in new namespaces without ids, and sends it a plan
// (vmm/container/plan) when its ids are mapped. It is linked into the guest agent's program, so it
// imports little.
package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/container/plan"
	"agentbox/vmm/hostdir/give"
	"agentbox/vmm/nsinit"
)

// Main carries out one plan. It does not return: it becomes the agent, or ends. It must be called on
// the main thread, which has the parent-death signal.
func Main() {
	runtime.LockOSThread()
	unix.CloseOnExec(plan.FDControl)
	unix.CloseOnExec(plan.FDStream)
	l := &launcher{control: os.NewFile(plan.FDControl, "control")}
	err := nsinit.DieWithParent()
	if err == nil {
		err = l.receive()
	}
	if err == nil {
		err = l.carryOut()
	}
	if err != nil {
		l.say(plan.Event{Failed: err.Error()})
		os.Exit(1)
	}
	l.say(plan.Event{Started: true})
	os.Exit(0)
}

type launcher struct {
	plan    plan.Plan
	control *os.File
	trees   []int          // detached mounts: image, agent, runtime, workspace
	devices map[string]int // detached mounts of devices
	extra   []int          // detached mounts of what Plan.Extra names, in its order
	agent   int            // the guest agent's program
	cable   int
}

// maxPlan bounds a plan in bytes: the filter of system calls is most of it.
const maxPlan = 64 << 10

// receive waits for the plan, and takes the mounts that come with its first byte.
func (l *launcher) receive() error {
	buf, oob := make([]byte, maxPlan), make([]byte, unix.CmsgSpace(4*4))
	got := 0
	for !bytes.Contains(buf[:got], []byte("\n")) {
		n, rn, _, _, err := unix.Recvmsg(plan.FDControl, buf[got:], oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return errors.Join(errors.New("there is no plan"), err)
		}
		got += n
		messages, err := unix.ParseSocketControlMessage(oob[:rn])
		for i := range messages {
			fds, rightsErr := unix.ParseUnixRights(&messages[i])
			l.trees, err = append(l.trees, fds...), errors.Join(err, rightsErr)
		}
		if err != nil {
			return err
		}
	}
	return json.Unmarshal(buf[:got], &l.plan)
}

func (l *launcher) say(e plan.Event, fds ...int) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(plan.FDControl, append(line, '\n'), rights, nil, 0))
}

// carryOut does what the plan says. It returns for a plan that starts no container.
func (l *launcher) carryOut() error {
	p := l.plan
	switch {
	case p.Adopt != "":
		return errors.Join(nsinit.BecomeRoot(), give.Tree(p.Adopt, p.User))
	case p.Unpack != "":
		return errors.Join(nsinit.BecomeRoot(), unpack(p.Unpack, os.NewFile(plan.FDTar, "tar")))
	case p.Remove != "":
		return errors.Join(nsinit.BecomeRoot(), os.RemoveAll(p.Remove))
	}
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"open what the container has of this host", l.openTrees},
		{"open devices", l.openDevices},
		{"open what makes network cards", l.openTun},
		{"become root of the user namespace", nsinit.BecomeRoot},
		{"leave the user's keyring", leaveKeyring},
		{"make the network card", l.makeCard},
		{"hide the host's control groups", newGroups},
		{"start the clocks", newClocks},
		{"put the root together", l.makeRoot},
		{"choose CPUs", func() error { return nsinit.ChooseCPUs(l.plan.CPUs) }},
		{"set limits", setLimits},
		{"drop capabilities", dropCapabilities},
		{"filter system calls", l.filterCalls},
		{"answer", func() error { return l.say(plan.Event{Started: true}, l.cable) }},
		{"start the guest agent", l.startAgent},
	} {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// startAgent becomes the guest agent. Its program has no name in the box, and is on an overlay
// without an upper layer: not even root of the box can change it, although the file may belong to
// the box's user on the host.
func (l *launcher) startAgent() error {
	if l.plan.Try {
		os.Exit(0)
	}
	for fd := range 2 {
		if err := unix.Dup3(plan.FDStream, fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	argv := []string{agentName, plan.AgentMode, strconv.FormatInt(l.plan.Watch, 10)}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return syscall.Exec("/proc/self/fd/"+strconv.Itoa(l.agent), argv, env)
}

// agentName is the agent's program in Plan.Agent.
const agentName = "agentbox-guest"
