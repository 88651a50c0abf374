package container

import "golang.org/x/sys/unix"

// legacy are denied calls that only this processor has.
var legacy = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_SYSFS, unix.SYS_USTAT}
