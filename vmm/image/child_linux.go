package image

import (
	"os"
	"syscall"
)

// childAttributes put a program into a group of its own, which one signal reaches, and let it end
// with the thread that started it. As root it also gets a mount namespace of its own: mmdebstrap
// mounts /proc, /sys and the host's /dev/shm below its directory, and if it is killed they must go
// with its processes, not stay in the host's tree. SIGTERM and not SIGKILL: mmdebstrap has mounts
// to undo.
func childAttributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() == 0 {
		a.Unshareflags = syscall.CLONE_NEWNS // with this flag the standard library makes all mounts private as well
	}
	return a
}

// mountTable lists what is mounted for this process, in the order in which it was mounted.
func mountTable() ([]mounted, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(table)), nil
}
