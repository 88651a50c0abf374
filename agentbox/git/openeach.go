package git

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openEach opens a path whose components are no links, one after the other, each in the one before.
func openEach(path string, flags int) (*os.File, error) {
	at, rest := unix.AT_FDCWD, filepath.Clean(path)
	fail := func(err error) (*os.File, error) { return nil, &fs.PathError{Op: "open", Path: path, Err: err} }
	if filepath.IsAbs(rest) {
		root, err := unix.Open("/", through|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail(err)
		}
		at, rest = root, rest[1:]
	}
	for {
		name, below, more := strings.Cut(rest, "/")
		mode := flags
		if more {
			mode = through | unix.O_DIRECTORY | unix.O_CLOEXEC
		}
		if name == "" { // the root itself
			name = "."
		}
		fd, err := unix.Openat(at, name, mode|unix.O_NOFOLLOW, 0)
		var st unix.Stat_t
		if err == unix.ENOTDIR && unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP // as one call says it
		}
		if at != unix.AT_FDCWD {
			_ = unix.Close(at)
		}
		if err != nil {
			return fail(err)
		}
		if !more {
			return os.NewFile(uintptr(fd), path), nil
		}
		at, rest = fd, below
	}
}
