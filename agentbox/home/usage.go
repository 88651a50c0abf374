package home

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// DiskUsage is what the files below dir take on disk; they are sparse, so not what they measure.
func DiskUsage(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // files come and go while we count
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	return total
}
