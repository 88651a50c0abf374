// Package unmap lets a program that rests keep little of itself in memory. It knows nothing else:
// the first process of a gVisor machine uses it, and links little.
package unmap

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Program unmaps the pages of this program that the start needed, and those that the kernel mapped
// around them. They stay in the page cache, from where the kernel maps again what is used again, in
// small pieces.
//
// It drops segments that cannot be written to only: their pages are the file's. A
// position-independent program has pages among them that the loader has written to, so it keeps
// them all.
func Program() error {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	if program.Type != elf.ET_EXEC {
		return nil
	}
	var errs []error
	for _, p := range program.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			errs = append(errs, pages(p.Vaddr, p.Memsz))
		}
	}
	return errors.Join(errs...)
}

// pages unmaps the whole pages in a range of addresses.
func pages(start, size uint64) error {
	page := uint64(os.Getpagesize())
	end := (start + size) / page * page // the last may be shared with the next segment
	start = (start + page - 1) / page * page
	if end <= start {
		return nil
	}
	cut(start, end)
	if errno := madvise(start, end-start, unix.MADV_DONTNEED); errno != 0 {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}

// piece is as much as Linux maps around a page that is used.
const piece = 64 << 10

// cut makes mappings of one piece each, by advice that means nothing for a file like this one and
// that only every second one is given. Without it a page that is used brings along all that the
// page cache holds in one unit with it, up to 2 MiB (Linux 6.18). A kernel that does not know the
// advice maps more; nothing else depends on it.
func cut(start, end uint64) {
	for start = (start + piece - 1) / piece * piece; start+piece <= end; start += 2 * piece {
		madvise(start, piece, unix.MADV_NOHUGEPAGE)
	}
}

func madvise(start, size uint64, advice uintptr) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(size), advice)
	return errno
}
