package container

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"agentbox/vmm/confine"
)

// denied are the system calls that fail with EPERM in a container. Most of what a container engine
// denies needs a capability on the host, which no process of a user namespace has; this is what does
// not, what has been a way out, and what belongs to no namespace. Mounts, namespaces and ptrace stay:
// sandboxes, containers and debuggers in the box need them.
var denied = append([]uint32{
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, // keyrings
	unix.SYS_OPEN_BY_HANDLE_AT, // any file of a mounted file system, by its number
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG,
	unix.SYS_USERFAULTFD, // stops the kernel where an attacker wants it
}, legacy...)

// families are the kinds of sockets that a box may make: those that its network namespace bounds.
// vsock, Bluetooth and others reach the host or its hardware from any namespace.
var families = []uint32{unix.AF_UNSPEC, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET}

// rings are the calls of io_uring. A ring makes sockets of any family, past every filter.
var rings = []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// systemCalls is the filter for a container, as the kernel takes it.
func systemCalls(withRings bool) ([]byte, error) {
	calls := denied
	if !withRings {
		calls = append(calls[:len(calls):len(calls)], rings...)
	}
	code, err := confine.Filter(calls, families)
	if err != nil {
		return nil, err
	}
	size := len(code) * int(unsafe.Sizeof(code[0]))
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), size)...), nil
}

// hasVsock tells whether this kernel makes vsock sockets, or would load what makes them.
func hasVsock() bool {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}
