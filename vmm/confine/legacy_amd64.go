package confine

import "golang.org/x/sys/unix"

// legacy are denied calls that newer architectures never had.
var legacy = []uint32{
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_IOPL, unix.SYS_IOPERM,
}
