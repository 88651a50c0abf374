//go:build !linux

package disk

import "os"

// Allocate makes a file that takes n bytes on disk, unless it is there already.
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
