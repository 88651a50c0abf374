package image

import (
	"os"
	"syscall"
)

// childAttributes start a program in a process group of its own, and with SIGTERM at the end of the
// thread that started it, so that mmdebstrap can clean up. As root it also gets a mount namespace:
// mmdebstrap mounts /proc, /sys and the host's /dev/shm, and if it is killed the mounts must end
// with its processes.
func childAttributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() == 0 {
		a.Unshareflags = syscall.CLONE_NEWNS // the standard library also makes all mounts private
	}
	return a
}

// mountTable lists the mounts of this process, in the order in which they were made.
func mountTable() ([]mounted, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(table)), nil
}
