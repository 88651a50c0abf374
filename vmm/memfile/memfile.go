// Package memfile makes files in memory that nobody can change once they are sealed. It does not
// interpret their content. vmm/qemu keeps opened templates in them: many machines start from
// exactly the bytes that were verified, and no VMM that a guest has taken over may change them for
// the others, whatever descriptors it holds. Such a file has no name on disk, is passed to other
// processes as a descriptor, and goes with the last of these. See memfd_create(2).
package memfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// New makes a file of size bytes that can be sealed. It is one hole and takes memory only where it
// is written to. name shows in /proc/PID/maps of the processes that map it; the caller closes it.
func New(name string, size int64) (*os.File, error) {
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

// seals forbid every change, and further seals.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// Seal makes a file of New's immutable, for everybody and for good. It fails while some process has
// a shared writable mapping of it.
func Seal(f *os.File) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal %s: %w", f.Name(), err)
	}
	return nil
}

// Check is nil if another process passed on this number of files, all of them sealed. It does not
// look at their content.
func Check(files []*os.File, number int) error {
	if len(files) != number {
		return fmt.Errorf("a template is inherited as %d files, not %d", number, len(files))
	}
	for _, f := range files {
		have, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
		if err != nil || have&seals != seals {
			return errors.New("a template's file is not a sealed memory file")
		}
	}
	return nil
}

// Sealed makes a file with this content and seals it. After an error nothing is left.
func Sealed(name string, content io.Reader) (*os.File, error) {
	f, err := New(name, 0)
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(f, content); err == nil {
		err = Seal(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Reopen opens the file a second time, to read it from its beginning with an offset of its own.
func Reopen(f *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
