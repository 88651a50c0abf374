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

// gvisorBox is everything that is the user's, in the one control group that gVisor can limit
// usefully: that of the number of processes. It has neither a freezer nor a killer nor a limit of
// memory; the last two are done here. Its functions are those of Machine. watch runs for the
// machine's life and is the only one that uses full.
type gvisorBox struct {
	dir   string
	log   *slog.Logger
	kills atomic.Int64 // processes that were killed for want of memory

	forkBombs atomic.Int64 // groups of processes that were killed for want of room for others
	full      time.Time    // since when there is none; zero while there is; watch's own
}

// The control groups, which gVisor has in their first version. They are out of the way of programs
// that look for limits.
const (
	gvisorGroups = "/run/agentbox/pids"
	gvisorGroup  = gvisorGroups + "/box"
)

// gvisorPIDs is how many processes and threads a box may have unless its configuration says
// otherwise. Each is a thread of the host: with thousands that all want to run, nothing else of the
// box gets its turn.
const gvisorPIDs = 1024

func gvisorCgroup() error {
	if err := (mount{"pids", gvisorGroups, "cgroup", quiet, "pids"}).do(); err != nil {
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

// join moves the calling thread into the group, so that what it forks is born there, and gives what
// moves it back. No directory is given; the function that it returns must be called on the same
// goroutine.
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
			return // and the thread ends with its goroutine
		}
		runtime.UnlockOSThread()
	}, nil
}

// processes lists the box's processes. The agent, which is among them while one of its threads
// forks, is left out.
func (g *gvisorBox) processes() []int {
	return slices.DeleteFunc(pidsIn(filepath.Join(g.dir, "cgroup.procs")), func(pid int) bool { return pid == os.Getpid() })
}

func (g *gvisorBox) signal(sig syscall.Signal) {
	for _, pid := range g.processes() {
		syscall.Kill(pid, sig) // an error means that it has ended
	}
}

// await waits until no process is left; again is done before each look. It is false when limit
// passed before.
func (g *gvisorBox) await(limit time.Duration, again func()) bool {
	return poll(limit, func() bool {
		again()
		return len(g.processes()) == 0
	})
}

func (g *gvisorBox) terminate(wait time.Duration) {
	g.signal(syscall.SIGTERM)
	g.await(wait, func() {})
}

// kill ends every process of the box, those too that are forked while it does. There is no call
// that kills a group at once, so it signals again until none is left.
func (g *gvisorBox) kill() {
	if !g.await(killTimeout, func() { g.signal(syscall.SIGKILL) }) {
		g.log.Error("kill user processes", "err", errors.New("processes are left after SIGKILL"))
	}
}

func (g *gvisorBox) stats() (protocol.GuestStats, error) {
	total, available, err := memory()
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

// How often memory is looked at: so often that no program can fill what is left in between, and not
// more.
const (
	// Between two looks a program can take memoryRate times that; the wait is chosen so that this
	// is less than what is left.
	memoryRate    = 4 << 30 // bytes a second that a program may take
	minMemoryLook = 10 * time.Millisecond
	maxMemoryLook = time.Second
)

// watch does what the kernel of a virtual machine would do: when the machine is out of memory, the
// largest process of the box ends. Fork bombs are looked for meanwhile. It stops when memory cannot
// be read, and says so.
func (g *gvisorBox) watch() {
	for {
		total, available, err := memory()
		if err != nil {
			g.log.Error("memory is not watched", "err", err)
			return
		}
		left := available - reserve(total)
		if left <= 0 {
			g.killLargest()
		}
		g.endForkBomb(time.Now())
		look := time.Duration(float64(max(left, 0)) / memoryRate * float64(time.Second))
		time.Sleep(min(max(look, minMemoryLook), maxMemoryLook))
	}
}

// killLargest ends the process that has most, and waits for its memory. Without one there is
// nothing that could help.
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

// How long a killed process may take to end, and gVisor to give back what it had. On a busy host
// both take their time.
const (
	endTime  = time.Second
	backTime = 5 * time.Second
)

// awaitMemory waits for what a killed process had, or the next process would be killed for it. It
// returns at once when somebody else takes more meanwhile.
func (g *gvisorBox) awaitMemory(victim int) {
	poll(endTime, func() bool { return syscall.Kill(victim, 0) != nil })
	total, before, err := memory()
	poll(backTime, func() bool {
		var available int64
		if err == nil {
			_, available, err = memory()
		}
		return err != nil || available > reserve(total) || available < before
	})
}

// resident is how much memory a process has, 0 when it has ended.
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
