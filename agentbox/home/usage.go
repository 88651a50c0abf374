package home

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// longPath is how long a path may get before what is below it is looked at by a shorter one. With a
// name (255 bytes) it stays below PATH_MAX.
const longPath = 2048

// DiskUsage is how many bytes the files below dir take on disk. They are sparse, so it differs from
// the sum of their sizes. Files that cannot be looked at count as nothing.
//
// A box may have made directories that are nested deeper than a path can say. Their contents are
// reached by /proc, which Linux has; elsewhere they are not counted.
func DiskUsage(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // files come and go while we count
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		if d.IsDir() && len(path) > longPath {
			if below, err := deepUsage(path); err == nil {
				total += below
				return fs.SkipDir
			}
		}
		return nil
	})
	return total
}

// deepUsage is DiskUsage of a directory with a long path, without the directory itself.
func deepUsage(dir string) (int64, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, e := range entries {
		total += DiskUsage(fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), e.Name()))
	}
	return total, nil
}
