package disk

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Allocate makes a file that takes n bytes on disk, unless one that does is there already. Their
// content is of no interest. After an error there is none, or the part that was there.
func Allocate(name string, n int64) error {
	if info, err := os.Stat(name); err == nil && allocated(info) >= n {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, n); err != nil {
		os.Remove(name)
		return &fs.PathError{Op: "fallocate", Path: name, Err: err}
	}
	return nil
}
