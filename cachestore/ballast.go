package cachestore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"agentbox/cachestore/disk"
)

// ballast is a file that reserves disk space, which gc frees on a full disk to be able to work.
type ballast struct {
	dir
	size, keepFree int64 // Config's Ballast and KeepFree
	log            *slog.Logger
}

// allocate reserves the space if KeepFree and the ballast remain free afterwards. gc also works
// without a ballast, as long as the disk is not full.
func (b ballast) allocate() {
	free, err := b.fs.Free(b.root)
	if err != nil || b.size < 0 || free < b.keepFree+2*b.size {
		return
	}
	if err := disk.Allocate(b.path(ballastName), b.size); err != nil {
		b.log.Warn("no ballast", "error", err)
	}
}

// drop frees the space. allocate reserves it again after gc.
func (b ballast) drop() {
	if err := os.Remove(b.path(ballastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Warn("cannot remove the ballast", "error", err)
	}
}
