//go:build linux

package launch

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/nsinit"
)

// leaveKeyring gives the container a session keyring of its own: keyrings belong to no namespace,
// and the one that was inherited has the keys of the user's login.
func leaveKeyring() error {
	_, err := unix.KeyctlJoinSessionKeyring("agentbox")
	if err == unix.ENOSYS {
		return nil
	}
	return os.NewSyscallError("keyctl", err)
}

// newGroups makes the control group that this process is in the root of what the box sees of them.
func newGroups() error { return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWCGROUP)) }

// newClocks has the agent, and so the box, count the time since its own start. Without time
// namespaces in the kernel, the box sees how long the host has been up.
func newClocks() error {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return err
	}
	var mono unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return err
	}
	if unix.Unshare(unix.CLONE_NEWTIME) != nil {
		return nil
	}
	return os.WriteFile("/proc/self/timens_offsets", fmt.Appendf(nil, "monotonic %d 0\nboottime %d 0\n", -mono.Sec, -up.Sec), 0)
}

// setLimits sets the limits that programs in every box begin with, as far as the caller's allow.
func setLimits() error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		return err
	}
	most := min(have.Max, protocol.MaxFiles)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: min(most, protocol.DefaultFiles), Max: most}); err != nil {
		return err
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &have); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 0, Max: have.Max})
}

// kept are the capabilities that root of the box can have, all of its user namespace. The others
// concern the host alone: its kernel refuses them to any process of a user namespace.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_LINUX_IMMUTABLE, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_BROADCAST, unix.CAP_NET_ADMIN,
	unix.CAP_NET_RAW, unix.CAP_IPC_LOCK, unix.CAP_IPC_OWNER, unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_BOOT,
	unix.CAP_SYS_NICE, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_TTY_CONFIG, unix.CAP_MKNOD, unix.CAP_LEASE, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
}

func dropCapabilities() error {
	if err := nsinit.KeepCapabilities(kept); err != nil {
		return err
	}
	return noAmbient()
}

// noAmbient drops the capabilities with which the launcher was started.
func noAmbient() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
}

// filterCalls installs the plan's filter for all that this thread becomes. It needs no
// no_new_privs, which would take sudo from the box: this thread has CAP_SYS_ADMIN in its namespace.
// If the kernel has vsock, no filter can keep a ring (io_uring) from its sockets, which belong to no
// namespace, so the driver left rings out of what is allowed.
func (l *launcher) filterCalls() error {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	n := len(l.plan.Filter) / size
	if n == 0 {
		return fmt.Errorf("the plan has no filter")
	}
	program := make([]unix.SockFilter, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), n*size), l.plan.Filter)
	given := unix.SockFprog{Len: uint16(n), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&given)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
