package confine

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// denied are the system calls that fail with EPERM in a confined program. It can still read, write
// and query the sockets that it inherits, all of which are connected to us. EPERM and not a kill,
// because QEMU and its libraries try some of these calls and go on without them: QEMU 11 falls back
// from io_uring by itself. Numbers are those of the architecture that this program is built for.
var denied = slices.Concat(legacy, []uint32{
	// Every way to a new socket, and so to the user's daemon, session bus and agents, the network,
	// netlink and vsock. A ring opens and connects sockets without these calls.
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// The user's other programs: their memory, descriptors, messages and signals.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// Mode, owner, times and attributes of any file that the user owns: Landlock has no right for
	// them (landlock(7), "Filesystem flags").
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	// Mounts, modules, the clock and names of the host, where we run as root.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_ACCT, unix.SYS_SYSLOG,
	// The user's keyrings, and parts of the kernel that a machine has no use for.
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_UNSHARE, unix.SYS_SETNS,
})

// architectures are the values of AUDIT_ARCH in a filter, by Go's names. On any other architecture
// machines do not start, as its calls cannot be judged.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in struct seccomp_data, and the first number of the x32 ABI, which has all calls again.
const (
	// Bytes from the start of the struct.
	offsetNumber, offsetArch, offsetFirstArgument = 0, 4, 16
	firstX32                                      = 0x40000000
)

// filter is the program that decides about each call. It denies all calls by other ABIs of the
// processor, whose numbers differ, so it compares the architecture before any number, and on x86-64
// drops the x32 numbers first. It denies the listed calls and, unless families is nil, sockets of
// other families. goarch must be a key of architectures.
func filter(goarch string, denied, families []uint32) ([]bpf.Instruction, error) {
	arch, ok := architectures[goarch]
	if !ok {
		return nil, fmt.Errorf("nobody has said which system calls to deny on %s", goarch)
	}
	deny := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1}, deny,
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstX32, SkipTrue: 1}, deny,
	}
	for _, number := range denied {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: 1}, deny)
	}
	if families != nil {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKET, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKETPAIR, SkipTrue: 1}, allow,
			bpf.LoadAbsolute{Off: offsetFirstArgument, Size: 4}) // the kernel takes an int
		for _, family := range families {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: family, SkipTrue: 1}, allow)
		}
		return append(program, deny), nil
	}
	return append(program, allow), nil
}

// Filter is the program of a filter for seccomp(2): the denied calls, and sockets of other families
// than those listed, fail with EPERM. Both processors that it knows have the low half of an argument
// first.
func Filter(denied, families []uint32) ([]unix.SockFilter, error) {
	program, err := filter(runtime.GOARCH, denied, families)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return code, nil
}

// denyCalls installs the filter for the calling thread and what it starts. It comes after
// PR_SET_NO_NEW_PRIVS, without which the kernel accepts a filter from root only.
func denyCalls() error {
	code, err := Filter(denied, nil)
	if err != nil {
		return err
	}
	given := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&given)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
