//go:build !linux

package disk

import "os"

// Allocate makes a file that takes n bytes on disk, unless one of that size is there already. It
// writes zeros, which is slow, but no hole.
func Allocate(name string, n int64) error {
	if info, err := os.Stat(name); err == nil && info.Size() >= n {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeZeros(f, 0, n)
}
