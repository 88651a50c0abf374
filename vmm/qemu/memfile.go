package qemu

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newMemoryFile makes an anonymous file in memory that can be sealed, a hole of size bytes. It
// takes memory only where it is written to. Its name shows in /proc/PID/maps, by which pagemap.go
// finds it; the caller closes it.
func newMemoryFile(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// F_SEAL_SEAL, so that nobody adds or removes seals later.
const immutable = unix.F_SEAL_SEAL | unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// seal makes a memory file immutable for everybody, whatever descriptors they hold. It fails while
// somebody has the file mapped, shared and for writing.
func seal(f *os.File) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, immutable); err != nil {
		return fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return nil
}

// isSealed is nil if a descriptor that another process passed on is such a file.
func isSealed(f *os.File) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&immutable != immutable {
		return errors.New("a template's file is not a sealed memory file")
	}
	return nil
}

// sealedBytes is a memory file of the given content.
func sealedBytes(name string, content []byte) (*os.File, error) {
	f, err := newMemoryFile(name, 0)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = seal(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// reopen gives a second file with an offset of its own: QEMU reads device state from where the
// offset is.
func reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
