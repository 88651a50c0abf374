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
func (b reserveFile) allocate() {
	free, err := b.fs.Free(b.root)
	if err != nil || b.size < 0 || free < b.keepFree+2*b.size {
		return
	}
	if err := disk.Allocate(b.path(reserveFileName), b.size); err != nil {
		b.log.Warn("cannot reserve disk space for gc", "error", err)
	}
}

// drop frees the space. allocate reserves it again after gc.
func (b reserveFile) drop() {
	if err := os.Remove(b.path(reserveFileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Warn("cannot remove the reserve file", "error", err)
	}
}
