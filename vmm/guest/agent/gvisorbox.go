//go:build linux

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"agentbox/vmm/guest/protocol"
)

// gvisorBox is everything that is the user's, in one control group with a limit of processes.
// gVisor has no freezer, no cgroup.kill and no limit of memory; the last two are done here. The
// methods are those of Machine. watch runs for as long as the machine and is the only one that uses
// fullSince and forkBomb.
type gvisorBox struct {
	dir    string
	list   func() []int                               // of the box's processes
	memory func() (total, available int64, err error) // of the box, in bytes
	log    *slog.Logger
	kills  atomic.Int64 // processes that were killed for want of memory

	forkBombs atomic.Int64 // groups of processes that were killed for want of room for others
	fullSince time.Time    // since when there is no room; zero while there is some
	forkBomb  int          // the group of processes that is being killed, or 0
}

// The control groups, which gVisor has in version 1. They are where no program looks for limits.
const (
	gvisorGroups = "/run/agentbox/pids"
	gvisorGroup  = gvisorGroups + "/box"
)

// gvisorPIDs is how many processes and threads a box may have unless its configuration says
// otherwise. Each is a thread of the host: thousands that all want to run would starve the rest of
// the box.
const gvisorPIDs = 1024

// gvisorCgroup mounts the controller of process numbers, and makes the box's group.
func gvisorCgroup() error {
	if err := (mount{"pids", gvisorGroups, "cgroup", noExecFlags, "pids"}).do(); err != nil {
		return err
	}
	if err := os.MkdirAll(gvisorGroup, 0o755); err != nil {
		return err
	}
	return (&gvisorBox{dir: gvisorGroup}).limit(0)
}

// limit sets how many processes and threads the box may have, the default for 0.
func (g *gvisorBox) limit(pids int) error {
	if pids <= 0 {
		pids = gvisorPIDs
	}
	return write(filepath.Join(g.dir, "pids.max"), strconv.Itoa(pids))
}

// join moves the calling thread into the group, so that what it forks is born there, and returns a
// function that moves it back, to be called on the same goroutine. It returns no directory.
func (g *gvisorBox) join(string) (*os.File, func(), error) {
	runtime.LockOSThread()
	thread := strconv.Itoa(syscall.Gettid())
	if err := write(filepath.Join(g.dir, "tasks"), thread); err != nil {
		runtime.UnlockOSThread()
		return nil, nil, err
	}
	return nil, func() {
		// A thread that stayed in the group would count as one of the box's.
		if err := write(filepath.Join(gvisorGroups, "tasks"), thread); err != nil {
			g.log.Error("leave the box's group", "err", err)
			return // the thread ends with its goroutine
		}
		runtime.UnlockOSThread()
	}, nil
}

// processes lists the box's, without the agent, a thread of which may be among them to fork.
func (g *gvisorBox) processes() []int {
	return slices.DeleteFunc(g.list(), func(pid int) bool { return pid == os.Getpid() })
}

// signal sends a signal to every process of the box. One that is being forked may be missed.
func (g *gvisorBox) signal(sig syscall.Signal) {
	for _, pid := range g.processes() {
		syscall.Kill(pid, sig) // an error means that it has ended
	}
}

// await waits until no process is left, and calls again before each check; false after limit.
func (g *gvisorBox) await(limit time.Duration, again func()) bool {
	return poll(limit, func() bool {
		again()
		return len(g.processes()) == 0
	})
}

// terminate sends SIGTERM to every process of the box and waits until all have ended, at most wait.
func (g *gvisorBox) terminate(wait time.Duration) {
	g.signal(syscall.SIGTERM)
	g.await(wait, func() {})
}

// kill ends every process of the box. No call kills a group at once, so it repeats the signal until
// none is left, and thereby ends those that are forked meanwhile.
func (g *gvisorBox) kill() {
	if !g.await(killTimeout, func() { g.signal(syscall.SIGKILL) }) {
		g.log.Error("kill user processes", "err", errors.New("processes are left after SIGKILL"))
	}
}

// stats reports what the guest knows of the sandbox. An error leaves out the memory only.
func (g *gvisorBox) stats() (protocol.GuestStats, error) {
	total, available, err := g.memory()
	return protocol.GuestStats{
		MemoryTotal:     total,
		MemoryAvailable: available,
		Processes:       len(g.processes()),
		OOMKills:        int(g.kills.Load()),
		ForkBombs:       int(g.forkBombs.Load()),
		WorkspaceFree:   free(protocol.WorkspaceDir),
		RuntimeFree:     free("/tmp"),
	}, err
}

// How often memory is checked: the interval is so short that a program cannot fill what is left
// within it.
const (
	memoryFillRate    = 4 << 30 // bytes a second that a program can take
	minMemoryInterval = 10 * time.Millisecond
	maxMemoryInterval = time.Second
)

// watch does what the kernel of a virtual machine would do: when the machine is out of memory, it
// kills the largest process of the box. It also looks for fork bombs. It stops, and logs that, when
// memory cannot be read.
func (g *gvisorBox) watch() {
	for {
		total, available, err := g.memory()
		if err != nil {
			g.log.Error("memory is not watched", "err", err)
			return
		}
		left := available - reservedMemory(total)
		if left <= 0 {
			g.killLargest()
		}
		g.endForkBomb(time.Now())
		look := time.Duration(float64(max(left, 0)) / memoryFillRate * float64(time.Second))
		time.Sleep(min(max(look, minMemoryInterval), maxMemoryInterval))
	}
}

// killLargest kills the process that has most memory, and waits until that memory is free.
func (g *gvisorBox) killLargest() {
	victim, most := 0, int64(0)
	for _, pid := range g.processes() {
		if size := resident(pid); size > most {
			victim, most = pid, size
		}
	}
	if victim == 0 || syscall.Kill(victim, syscall.SIGKILL) != nil {
		return
	}
	g.kills.Add(1)
	g.log.Warn("out of memory: killed the largest process", "pid", victim, "bytes", most)
	g.awaitMemory(victim)
}

// How long a killed process may take to end, and gVisor to give its memory back, on a busy host.
const (
	exitTimeout    = time.Second
	reclaimTimeout = 5 * time.Second
)

// awaitMemory waits for the memory of a killed process, or the next one would be killed for it. It
// returns at once if another process takes much of what is left meanwhile.
func (g *gvisorBox) awaitMemory(victim int) {
	poll(exitTimeout, func() bool { return syscall.Kill(victim, 0) != nil })
	total, before, err := g.memory()
	poll(reclaimTimeout, func() bool {
		var available int64
		if err == nil {
			_, available, err = g.memory()
		}
		return err != nil || isReclaimed(total, before, available)
	})
}

// isReclaimed tells whether the wait for a killed process's memory is over, all in bytes: more than
// the reservedMemory is available, or less than half of what there was before. A smaller loss is no
// reason to kill again: on a busy host gVisor returns the memory of a large process late, and a
// small process that starts meanwhile would be the next to die.
func isReclaimed(total, before, available int64) bool {
	return available > reservedMemory(total) || available < before/2
}

// resident is how much memory a process has in bytes, 0 when it has ended.
func resident(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
