package cachestore

import (
	"errors"
	"fmt"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
)

// imageFiles creates the files of images. Until its manifest is known, a file has a temporary name,
// and the next Open removes it.
type imageFiles struct {
	dir
	numbers *atomic.Uint64 // Store.nextID
	handles *handles
}

// tempName returns the path of an image file that has no manifest yet. scanDisk removes such files.
func (i *imageFiles) tempName(id uint64) string {
	return i.path(imagesDir, fmt.Sprintf("%s%016x", disk.TempPrefix, id))
}

func (i *imageFiles) create(size int64) (disk.File, uint64, error) {
	id := i.numbers.Add(1)
	f, err := i.fs.Create(i.tempName(id))
	if err != nil {
		return nil, 0, i.hostError(err)
	}
	if err := f.Truncate(size); err != nil {
		return nil, 0, i.hostError(errors.Join(err, f.Close(), i.fs.Remove(i.tempName(id))))
	}
	return f, id, nil
}

// name gives an image file its final name. The bytes need not be synced as long as none is claimed:
// after a crash, a file with holes is an image with missing blocks.
func (i *imageFiles) name(id uint64, manifest agentbox.Digest) error {
	if err := i.fs.Rename(i.tempName(id), i.path(imagesDir, imageName(id, manifest))); err != nil {
		return i.hostError(err)
	}
	i.handles.register(id, manifest) // even if the sync fails: this process finds it there
	return i.hostError(i.fs.SyncDir(i.path(imagesDir)))
}

// empty creates the file of a manifest's image, all of which is a hole.
func (i *imageFiles) empty(d agentbox.Digest, size int64) (uint64, error) {
	f, id, err := i.create(size)
	if err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, i.hostError(err)
	}
	return id, i.name(id, d)
}
