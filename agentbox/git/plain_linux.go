package git

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// through is how a directory is opened that only leads further.
const dirOnly, through = unix.O_DIRECTORY, unix.O_PATH

// openNoLinks lets the kernel (Linux 5.6) refuse links anywhere in the path, which leaves no moment
// in which one could be put there. Where it is older, or something forbids the call, as QEMU's
// emulation of a program does, each component is opened by itself.
func openNoLinks(path string, flags int) (*os.File, error) {
	flags |= unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openEach(path, flags)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
