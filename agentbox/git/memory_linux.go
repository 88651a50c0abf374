package git

import "golang.org/x/sys/unix"

// maxMemory is what one git may allocate, in bytes. Files that it maps to read them, such as packs
// of any size, do not count; a file that it reads into memory does, and one that a box wrote can
// pretend to have a terabyte.
const maxMemory = 2 << 30

// limitMemory bounds the memory of a git that has just started. One that has ended by now needs no
// bound.
func limitMemory(pid int) {
	limit := unix.Rlimit{Cur: maxMemory, Max: maxMemory}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil)
}
