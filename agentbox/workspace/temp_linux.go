package workspace

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// memoryRoot is a tmpfs on every Linux that has POSIX shared memory: shm_overview(7).
const memoryRoot = "/dev/shm"

// spareMemory is how many bytes both memoryRoot and the machine can still take; 0 when memoryRoot
// is no memory. Both are asked, as a tmpfs may promise more than is free.
func spareMemory() int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(memoryRoot, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		return 0
	}
	return min(int64(st.Bavail)*st.Bsize, availableMemory())
}

// availableMemory is what the kernel says can be used without swapping, in bytes: proc_meminfo(5),
// MemAvailable.
func availableMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// ownedByUs keeps RemoveTemp from what another user put at our name: the directory is everybody's.
func ownedByUs(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
