//go:build linux

// Command launch is the first process of a gVisor machine's namespaces. It is embedded in agentbox
// and of no other use. It makes a root with nothing of the host but what the machine needs, starts
// runsc there, and ends with the sandbox. When it ends, for whatever reason, the kernel ends every
// process of the machine.
//
// The driver (vmm/gvisor) starts it in new namespaces without ids, and sends it messages of
// vmm/gvisor/plan over a socket. It waits for its plan, which comes when its ids are mapped;
// becomes root of its user namespace; mounts the root; makes the network interface; runs "runsc
// run" or "runsc restore"; and sends a connection to the sandbox back. Then it only reaps.
//
// Since one runs for each gVisor machine, it is small: it links no library but golang.org/x/sys,
// and only packages of agentbox that import nothing else.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/nsinit"
	"agentbox/vmm/unmap"
)

func init() { runtime.LockOSThread() } // the main thread is the one that has the parent-death signal and forks

// main runs a machine, or gives a directory to its user (Plan.Adopt). It reports errors before the
// sandbox runs as Event.Failed.
func main() {
	// Outside of a PID namespace of its own it would reap and kill other processes.
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agentbox launches gVisor machines with this program; it cannot run otherwise")
		os.Exit(2)
	}
	debug.SetGCPercent(20) // it is idle nearly always, and there is one for each machine
	control := os.NewFile(plan.FDControl, "control")
	l := &launcher{events: json.NewEncoder(control)}
	err := nsinit.DieWithParent()
	if err == nil {
		err = json.NewDecoder(control).Decode(&l.plan)
	}
	if err == nil && l.plan.Adopt != "" {
		if err = adopt(l.plan.Adopt, l.plan.User); err == nil {
			l.events.Encode(plan.Event{Started: true})
			return
		}
	} else if err == nil {
		err = l.start()
	}
	if err != nil {
		l.events.Encode(plan.Event{Failed: err.Error()})
		os.Exit(1)
	}
	go endWith(control)
	time.AfterFunc(restAfter, func() { unmap.Program() }) // what stays mapped after an error is memory
	end := l.wait()
	l.events.Encode(plan.Event{Ended: &end})
}

// restAfter is how long a start takes at most, nearly always. Then the launcher only waits.
const restAfter = time.Second

// endWith ends the machine when the supervisor closes its end of the control socket. Nothing is
// sent on it after the plan.
func endWith(control *os.File) {
	var b [1]byte
	for {
		if n, err := control.Read(b[:]); n == 0 || err != nil {
			os.Exit(1)
		}
	}
}

type launcher struct {
	plan    plan.Plan
	events  *json.Encoder
	sandbox int                        // process id of runsc's sandbox, in this namespace
	cable   int                        // a packet socket, if noCard is ""
	noCard  string                     // why there is no cable
	image   *os.File                   // serves Plan.Image
	ended   map[int]syscall.WaitStatus // processes that were reaped, until somebody looks
}

// start carries out the plan until the sandbox runs. Each step needs the one before, and after
// makeRoot no file of the host can be opened.
func (l *launcher) start() error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"open what serves the image", l.openImage}, // as the caller, since root of the namespace may not
		{"become root of the user namespace", nsinit.BecomeRoot},
		{"put the root together", l.makeRoot},
		{"bring up the loopback interface", bringUpLoopback},
		{"make the network card", func() error {
			// A machine can run without one. The driver logs the reason.
			if err := l.makeCard(); err != nil {
				l.noCard = err.Error()
			}
			return nil
		}},
		{"choose CPUs", func() error { return nsinit.ChooseCPUs(l.plan.CPUs) }},
		{"drop capabilities", func() error { return nsinit.KeepCapabilities(kept) }},
		{"start the sandbox", l.startSandbox},
		{"connect to the sandbox", l.connect},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// kept are the capabilities that runsc may need to start a sandbox. All are of the user namespace. runsc
// drops what it does not need once it runs, by stopping all its threads for each that is still to be had.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SYS_CHROOT,
	unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_MKNOD, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
}
