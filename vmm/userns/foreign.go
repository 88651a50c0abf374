package userns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

var errForeign = errors.New("there is a file of another user")

// HasForeign tells whether anything in dir belongs, or may belong, to another user. Groups do not
// count: files of ours can be read and removed whatever their group.
func HasForeign(dir string) (bool, error) {
	own := uint32(os.Geteuid())
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != own {
			return errForeign
		}
		return nil
	})
	switch {
	case errors.Is(err, errForeign), errors.Is(err, fs.ErrPermission), // a directory that only its owner may read
		errors.Is(err, syscall.ENAMETOOLONG): // too deep to look
		return true, nil
	}
	return false, err
}
