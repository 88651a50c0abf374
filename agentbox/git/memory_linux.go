package git

import "golang.org/x/sys/unix"

// maxMemory bounds what one git may allocate, in bytes. Files that git maps, such as packs of any
// size, do not count. A file that git reads into memory does count, and a box can make one appear
// to have a terabyte.
const maxMemory = 2 << 30

// limitMemory bounds the memory of a git that has just started. If it has already exited, nothing
// is left to bound.
func limitMemory(pid int) {
	limit := unix.Rlimit{Cur: maxMemory, Max: maxMemory}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil)
}
