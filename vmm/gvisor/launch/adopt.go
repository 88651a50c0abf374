//go:build linux

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// adopt gives everything in dir to a user of this namespace. Nobody else uses dir any more. What
// changes its owner loses the bits that would let others become it. A file that is the user's
// already is left alone, its group and setuid bits included.
func adopt(dir string, user int) error {
	if err := becomeRoot(); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == user {
			return nil
		}
		return os.Lchown(path, user, user)
	})
}
