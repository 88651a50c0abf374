package disk

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// TempPrefix is how the names of files begin that were being written when something ended the
// process. They may be removed.
const TempPrefix = ".new-"

// serial keeps apart the names of two Replaces of one file at the same time.
var serial atomic.Uint64

// Replace makes name hold data, so that a crash at any moment leaves the old or the new bytes, and
// the new ones once it has returned. The directory must exist. Two at once leave the data of one of
// them. It is durable.WriteFile for a file system that tests make fail.
func Replace(fsys FS, name string, data []byte) error {
	dir := filepath.Dir(name)
	fresh := filepath.Join(dir, fmt.Sprintf("%s%d-%s", TempPrefix, serial.Add(1), filepath.Base(name)))
	f, err := fsys.Create(fresh)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(fresh))
	}
	return fsys.SyncDir(dir)
}
