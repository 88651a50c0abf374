package supervisor

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unmapProgram unmaps the pages of this program that the start needed, and those that the kernel
// mapped around them. They stay in the page cache, from where the kernel maps again what is used
// again.
//
// It drops segments that cannot be written to only: their pages are the file's. A
// position-independent program has pages among them that the loader has written to, so it keeps
// them all.
func unmapProgram() error {
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
			errs = append(errs, unmapPages(p.Vaddr, p.Memsz))
		}
	}
	return errors.Join(errs...)
}

// unmapPages unmaps the whole pages in a range of addresses.
func unmapPages(start, size uint64) error {
	page := uint64(os.Getpagesize())
	end := (start + size) / page * page // the last may be shared with the next segment
	start = (start + page - 1) / page * page
	if end <= start {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED); errno != 0 {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}
