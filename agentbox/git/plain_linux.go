package git

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const dirOnly = unix.O_DIRECTORY

// openNoLinks lets the kernel (Linux 5.6) refuse links anywhere in the path, which leaves no moment
// in which one could be put there. On older kernels it refuses a link only as the last component,
// and the caller must have checked the components above.
func openNoLinks(path string, flags int) (*os.File, error) {
	flags |= unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(path, flags|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
