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

// quiesce readies the machine to become a template: nothing unwritten, no page of a disk that
// clones will not have, little memory in use. After that it runs what every clone runs first, so
// that what a clone reads is in memory: reading it from disk is most of the time of its first
// command. The buffers of the disks are dropped last, since a clone has others behind them. User
// processes stay frozen until the next Hello. After a failure the machine cannot become a template.
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

// spareThreads is how many threads a clone's first command was seen to need.
const spareThreads = 8

// endForTemplate ends the life of a machine that is about to become a template. It leaves allocated
// what a clone would allocate first: threads, and free memory of the Go heap. It runs after the
// reply was sent, the last that the host hears of this life.
func (a *Agent) endForTemplate(l *life) {
	l.end()
	var threads sync.WaitGroup
	for range spareThreads {
		threads.Go(func() { syscall.Nanosleep(&syscall.Timespec{Nsec: 20e6}, nil) }) // each holds a thread
	}
	threads.Wait()
	// What the life that ends has allocated is free in every clone.
	runtime.GC()
}

// dropCaches writes everything, and drops cached blocks, names and inodes.
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
		Processes:       readNumber(filepath.Join(box.dir, "pids.current"), ""),
		OOMKills:        readNumber(filepath.Join(box.dir, "memory.events"), "oom_kill"),
		WorkspaceFree:   free(protocol.WorkspaceDir),
		RuntimeFree:     free("/tmp"),
	}, nil
}

// free is the space that users may fill in dir's file system, in bytes; 0 if unknown.
func free(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// memory is the machine's total memory, and the kernel's estimate of what is available, in bytes.
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
