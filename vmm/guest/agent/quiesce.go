//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// quiesce makes the machine ready to become a template: nothing unwritten, no page of a disk that
// will be another's, little memory in use. What every clone does first is done once more, so that
// what it reads is in memory: reading it from disk is most of the time of a clone's first command.
// User processes stay frozen until the next Hello. The order: caches are dropped first and then
// filled by what clones do; the slots' buffers go last, since a clone has other disks behind them.
// After a failure the machine can be no template.
func (a *Agent) quiesce() error {
	if err := a.Machine.DropCaches(); err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	if err := a.warmUp(); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	if err := a.Machine.FreezeUser(); err != nil {
		return err
	}
	if err := a.Machine.DropSlots(); err != nil {
		return fmt.Errorf("drop disk buffers: %w", err)
	}
	return nil
}

// spareThreads is how many threads every clone finds ready: as many as its first command was seen
// to need.
const spareThreads = 8

// rest ends a life whose machine is about to become a template, so that no clone has to. What a
// clone would allocate first is left allocated and free: threads, and memory that need not be asked
// of the kernel. It runs after the reply was sent, which is the last that the host hears of this
// life.
func (a *Agent) rest(l *life) {
	l.end()
	var threads sync.WaitGroup
	for range spareThreads {
		threads.Go(func() { syscall.Nanosleep(&syscall.Timespec{Nsec: 20e6}, nil) }) // each holds a thread meanwhile
	}
	threads.Wait()
	// What the life that ends has allocated is free in every clone.
	runtime.GC()
}

// dropCaches writes everything and forgets it, the disks' blocks, names and inodes.
func dropCaches() error {
	unix.Sync()
	return write("/proc/sys/vm/drop_caches", "3")
}

// stats reads what only the guest knows. Without a workspace its free space is that of the root.
func stats(box *cgroups) (protocol.GuestStats, error) {
	total, available, err := memory()
	if err != nil {
		return protocol.GuestStats{}, err
	}
	return protocol.GuestStats{
		MemoryTotal:     total,
		MemoryAvailable: available,
		Processes:       number(filepath.Join(box.dir, "pids.current"), ""),
		OOMKills:        number(filepath.Join(box.dir, "memory.events"), "oom_kill"),
		WorkspaceFree:   free(protocol.WorkspaceDir),
		RuntimeFree:     free("/tmp"),
	}, nil
}

func free(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// memory reads the machine's total and available memory in bytes. What is available is the kernel's
// own estimate: free, and what it could drop.
func memory() (total, available int64, err error) {
	text, err := os.ReadFile(filepath.Join("/proc", "meminfo"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			available = n << 10
		}
	}
	return total, available, nil
}
