//go:build linux

// Command launch is the first process of a gVisor machine's namespaces, and nothing else: it is
// embedded in agentbox. It makes a root that shows nothing of the host but what the machine needs,
// starts runsc there, and ends with the sandbox. When it ends, for whatever reason, the kernel ends
// every process of the machine.
//
// The driver (vmm/gvisor) starts it with namespaces that are new and still without ids, and speaks
// to it over one socket in the words of vmm/gvisor/plan. It waits for its plan, which comes when
// its ids are mapped; becomes root of its user namespace; puts a mount namespace together; makes
// the network card; runs "runsc run" or "runsc restore"; and hands a connection to the sandbox
// back. Then it only reaps.
//
// It is kept small, in memory and in what it links, since one runs for each gVisor machine: no
// library but golang.org/x/sys, and packages of agentbox that import nothing either.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/netconfig"
	"agentbox/vmm/gvisor/plan"
)

func init() { runtime.LockOSThread() } // the main thread is the one that has the parent-death signal and forks

// main does one of two things: run a machine, or give a directory to its user (Plan.Adopt).
// Anything that goes wrong before the sandbox runs is told as Event.Failed; the exit status is for
// a person who starts the program by hand.
func main() {
	// Anywhere but in a PID namespace of its own it would reap and kill other people's processes.
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agentbox launches gVisor machines with this program; it cannot run otherwise")
		os.Exit(2)
	}
	// It does nothing most of its life, and there is one for each machine.
	debug.SetGCPercent(20)
	control := os.NewFile(plan.FDControl, "control")
	l := &launcher{events: json.NewEncoder(control)}
	err := dieWithParent()
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
	end := l.wait()
	l.events.Encode(plan.Event{Ended: &end})
}

// dieWithParent is repeated after every change of ids, which takes it away. The parent is the
// supervisor's thread that forked it.
func dieWithParent() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
}

// endWith ends the machine when the other end of the control socket is gone. The supervisor keeps
// it open for as long as the machine shall live. Nothing is ever sent on it after the plan.
func endWith(control *os.File) {
	var b [1]byte
	for {
		if n, err := control.Read(b[:]); n == 0 || err != nil {
			os.Exit(1)
		}
	}
}

type launcher struct {
	plan   plan.Plan
	events *json.Encoder
	// The process id of runsc's sandbox, in this namespace.
	sandbox int
	cable   int                        // a packet socket on our end of the network card's cable, when noCard is ""
	noCard  string                     // why there is none
	image   *os.File                   // serves Plan.Image
	ended   map[int]syscall.WaitStatus // processes that were reaped before anybody asked
}

// start goes from a plan to a sandbox that runs. The order is forced: each step needs what the one
// before has made, and after makeRoot no file of the host can be opened any more.
func (l *launcher) start() error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"open what serves the image", l.openImage}, // as the caller: root of the namespace may not
		{"become root of the user namespace", becomeRoot},
		{"put the root together", l.makeRoot},
		{"bring up the loopback interface", func() error { return netconfig.LinkUp("lo") }}, // which a new namespace has down
		{"make the network card", func() error {
			// A host that cannot make it runs the machine without a card; the reason goes to the
			// driver with the news that the machine runs, and into its log.
			if err := l.makeCard(); err != nil {
				l.noCard = err.Error()
			}
			return nil
		}},
		{"choose CPUs", l.chooseCPUs},
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

// becomeRoot takes the ids that the driver has mapped. Groups go first: after the user has changed,
// there is no right to change them.
func becomeRoot() error {
	if err := syscall.Setgroups(nil); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	return dieWithParent()
}

// chooseCPUs binds this thread, and so all that it forks, to the plan's CPUs. gVisor shows its
// guest as many as it may run on.
func (l *launcher) chooseCPUs() error {
	if len(l.plan.CPUs) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range l.plan.CPUs {
		set.Set(cpu)
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}
