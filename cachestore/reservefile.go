package cachestore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"agentbox/cachestore/disk"
)

// reserveFile is a file that reserves disk space, which gc frees on a full disk to be able to work.
type reserveFile struct {
	dir
	size, keepFree int64 // Config's ReserveFile and KeepFree
	log            *slog.Logger
}

// allocate reserves the space if KeepFree and the reserve file remain free afterwards. gc also
// works without a reserve file, as long as the disk is not full.
func (r reserveFile) allocate() {
	free, err := r.fs.Free(r.root)
	if err != nil || r.size < 0 || free < r.keepFree+2*r.size {
		return
	}
	if err := disk.Allocate(r.path(reserveFileName), r.size); err != nil {
		r.log.Warn("cannot reserve disk space for gc", "error", err)
	}
}

// drop frees the space. allocate reserves it again after gc.
func (r reserveFile) drop() {
	if err := os.Remove(r.path(reserveFileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("cannot remove the reserve file", "error", err)
	}
}
