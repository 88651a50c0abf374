//go:build linux

// Package nsinit is what the first process of a machine's namespaces does, whether it becomes a
// container or starts gVisor. It knows no plan. It imports nothing but golang.org/x/sys, as such a
// process is small.
package nsinit

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// DieWithParent has the kernel kill this process with the thread that forked it, the supervisor's.
// Every change of ids resets that.
func DieWithParent() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
}

// BecomeRoot changes to root of the user namespace, first the groups, which only root may change.
func BecomeRoot() error {
	if err := syscall.Setgroups(nil); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	return DieWithParent()
}

// ChooseCPUs binds this thread, and so everything that it forks, to some CPUs; to all without any.
func ChooseCPUs(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}

// KeepCapabilities takes all capabilities but those in kept from all that this thread starts.
func KeepCapabilities(kept []uintptr) error {
	for c := uintptr(0); ; c++ {
		if slices.Contains(kept, c) {
			continue
		}
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err {
		case nil:
		case unix.EINVAL:
			return nil // there are no more
		default:
			return os.NewSyscallError("prctl", err)
		}
	}
}

// MakeTarget makes what a mount needs to exist at target: a directory, or an empty file.
func MakeTarget(target string, dir bool) error {
	if dir {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// DisableIPv6 changes a setting of an interface. Without IPv6 in the kernel it does not exist.
func DisableIPv6(name, value string) {
	os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte(value), 0)
}
