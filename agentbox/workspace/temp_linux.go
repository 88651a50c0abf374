package workspace

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox/resources"
)

// memoryRoot is a tmpfs on every Linux with POSIX shared memory: shm_overview(7).
const memoryRoot = "/dev/shm"

// spareMemory returns how many bytes both memoryRoot and the machine can still take, and 0 if
// memoryRoot is not in memory. It checks both, because a tmpfs may promise more than is free.
func spareMemory() int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(memoryRoot, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	machine, err := resources.Measure()
	if err != nil {
		return 0
	}
	return min(int64(st.Bavail)*st.Bsize, machine.Available)
}

// ownedByUs keeps RemoveTemp from another user's directory: anyone can write to memoryRoot.
func ownedByUs(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
