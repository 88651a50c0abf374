//go:build linux

// Package give gives everything in a directory that a box wrote to one owner. It follows no link and
// changes nothing else.
package give

import (
	"os"

	"golang.org/x/sys/unix"
)

// Tree changes the owner and group of dir and of everything below it, unless the user owns it
// already. The kernel removes setuid bits from what changes its owner. Links are not followed.
func Tree(dir string, user int) error {
	if _, err := giveOne(unix.AT_FDCWD, dir, user); err != nil {
		return err
	}
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	fd, err = giveBelow(fd, user)
	unix.Close(fd)
	return err
}

// giveBelow does it for what is in the directory fd, which it takes over. It returns a descriptor
// of the same directory, for the caller to close. A box nests directories deeper than a path can
// name and than we may have files open, so each is opened from the one above it, and that from the
// one below it again.
func giveBelow(fd, user int) (int, error) {
	names, err := namesIn(fd)
	for _, name := range names {
		isDir, err := giveOne(fd, name, user)
		if err != nil {
			return fd, err
		}
		if !isDir {
			continue
		}
		below, err := openDir(fd, name)
		if err != nil {
			return fd, err
		}
		unix.Close(fd)
		if below, err = giveBelow(below, user); err == nil {
			fd, err = openDir(below, "..")
		}
		if err != nil {
			return below, err
		}
		unix.Close(below)
	}
	return fd, err
}

// giveOne changes the owner of one name, and tells whether it is a directory.
func giveOne(dir int, name string, user int) (isDir bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && int(st.Uid) != user {
		err = unix.Fchownat(dir, name, user, user, unix.AT_SYMLINK_NOFOLLOW)
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, pathError("chown", name, err)
}

// openDir opens the directory name in dir, and no symbolic link. The caller closes it.
func openDir(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return fd, pathError("open", name, err)
}

// namesIn lists a directory, without taking over its descriptor.
func namesIn(fd int) ([]string, error) {
	own, err := openDir(fd, ".")
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(own), "directory")
	defer d.Close()
	return d.Readdirnames(-1)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}
