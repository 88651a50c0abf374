package cachestore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"agentbox/cachestore/disk"
)

// ballast is a file that takes space while there is plenty, so that gc has some to give up on a
// full disk.
type ballast struct {
	dir
	size, keepFree int64 // Config's Ballast and KeepFree
	log            *slog.Logger
}

// inflate sets space aside while there is plenty: KeepFree and the ballast must be left
// over. Without it gc works too, as long as the disk is not full.
func (b ballast) inflate() {
	free, err := b.fs.Free(b.root)
	if err != nil || b.size < 0 || free < b.keepFree+2*b.size {
		return
	}
	if err := disk.Allocate(b.path(ballastName), b.size); err != nil {
		b.log.Warn("no ballast", "error", err)
	}
}

// drop gives the space back to the disk. inflate takes it again after gc.
func (b ballast) drop() {
	if err := os.Remove(b.path(ballastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.log.Warn("cannot remove the ballast", "error", err)
	}
}
