//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// quiesce makes the machine ready to become a template: nothing unwritten, no page of a disk that will be another's,
// and as little memory in use as there can be.
func quiesce() error {
	unix.Sync()
	if err := write("/proc/sys/vm/drop_caches", "3"); err != nil {
		return fmt.Errorf("drop caches: %w", err)
	}
	for _, name := range []string{protocol.SlotWorkspace} {
		dev, err := slot(name)
		if err != nil {
			continue // a machine without the slot has no pages of it
		}
		if err := flushBuffers(dev); err != nil {
			return err
		}
	}
	debug.FreeOSMemory()
	return nil
}

// stats reads what only the guest knows.
func stats(box cgroups) (protocol.GuestStats, error) {
	total, available, err := memory()
	if err != nil {
		return protocol.GuestStats{}, err
	}
	return protocol.GuestStats{
		MemoryTotal:     total,
		MemoryAvailable: available,
		Processes:       box.number("pids.current", ""),
		OOMKills:        box.number("memory.events", "oom_kill"),
		WorkspaceFree:   free(protocol.WorkspaceDir),
		RuntimeFree:     free("/tmp"),
	}, nil
}

// free is the space left in the file system of dir, 0 when there is none.
func free(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// memory reads the machine's total and available memory in bytes.
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
