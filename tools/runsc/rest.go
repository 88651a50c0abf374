package main

import (
	"debug/elf"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startTime    = time.Second // the commands that start a machine have ended by then; its sandbox and its file server go on
	startPercent = 1600        // garbage is not looked for before the heap has 64 MiB

	restEvery = 5 * time.Second       // how often one that goes on looks whether it works
	restTime  = 50 * time.Millisecond // of processor time between two looks: less is rest, in which the guest's agent looks around now and then
)

// startWithoutGC spares a start several collections of a heap that hardly has garbage yet, and
// gives back afterwards what the start took; the program's pages again whenever work is over. The
// goroutine that AfterFunc starts goes on for as long as the process: commands of runsc's end long
// before, and the two processes that stay have nobody else to do it. The figures are in
// docs/internals/measurements.md, "A gVisor machine at rest".
func startWithoutGC() {
	usual := debug.SetGCPercent(startPercent)
	pages := programPages() // now: the sandbox sees no /proc later
	time.AfterFunc(startTime, func() {
		debug.SetGCPercent(usual)
		debug.FreeOSMemory()
		forget(pages)
		for worked := false; ; {
			before := processorTime()
			time.Sleep(restEvery)
			switch works := processorTime()-before >= restTime; {
			case works:
				worked = true
			case worked:
				forget(pages)
				worked = false
			}
		}
	})
}

// span is a range of addresses.
type span struct{ start, size uintptr }

// programPages are this program's code and constants, which nobody writes to, so that the page
// cache has all of them. None where that is not known: they stay mapped then.
func programPages() (all []span) {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return nil
	}
	defer program.Close()
	for _, p := range program.Progs {
		if program.Type == elf.ET_EXEC && p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			all = append(all, span{uintptr(p.Vaddr), uintptr(p.Filesz &^ (p.Align - 1))})
		}
	}
	return all
}

// forget unmaps pages. What is used again is mapped again from the page cache, but in small pieces.
func forget(pages []span) {
	for _, s := range pages {
		s.cut()
		madvise(s.start, s.size, syscall.MADV_DONTNEED)
	}
}

// piece is as much as Linux maps around a page that is used.
const piece = 64 << 10

// cut makes mappings of one piece each, by advice that means nothing for a file like this one and
// that only every second one is given. Without it a page that is used brings along all that the
// page cache holds in one unit with it, up to 2 MiB (Linux 6.18).
func (s span) cut() {
	for start := (s.start + piece - 1) &^ (piece - 1); start+piece <= s.start+s.size; start += 2 * piece {
		madvise(start, piece, syscall.MADV_NOHUGEPAGE)
	}
}

// madvise fails where the kernel does not know the advice: nothing is lost then but memory.
func madvise(start, size uintptr, advice uintptr) {
	syscall.Syscall(syscall.SYS_MADVISE, start, size, advice)
}

// processorTime is what this process has taken; not its guest's programs, which run in others.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
