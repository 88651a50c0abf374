package cachestore

import (
	"errors"
	"fmt"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/cachestore/disk"
)

// imageFiles makes the files of images. A file has a name that the next Open removes until the
// manifest is known of whose image it is.
type imageFiles struct {
	dir
	numbers *atomic.Uint64 // Store.nextID
	handles *handles
}

// fresh is the name of an image file that has no manifest yet. survey removes what it finds
// under such names.
func (i *imageFiles) fresh(id uint64) string {
	return i.path(imagesDir, fmt.Sprintf("%s%016x", disk.Dirty, id))
}

// create makes an empty image file under a name that the next Open removes.
func (i *imageFiles) create(size int64) (disk.File, uint64, error) {
	id := i.numbers.Add(1)
	f, err := i.fs.Create(i.fresh(id))
	if err != nil {
		return nil, 0, i.hostError(err)
	}
	if err := f.Truncate(size); err != nil {
		return nil, 0, i.hostError(errors.Join(err, f.Close(), i.fs.Remove(i.fresh(id))))
	}
	return f, id, nil
}

// name gives an image file the name under which it is found again. Its bytes need not last
// yet, as long as none of them is claimed: after a crash a file with holes is one that has not
// come.
func (i *imageFiles) name(id uint64, manifest agentbox.Digest) error {
	if err := i.fs.Rename(i.fresh(id), i.path(imagesDir, imageName(id, manifest))); err != nil {
		return i.hostError(err)
	}
	i.handles.register(id, manifest) // whether or not the name lasts: until then it is found there
	return i.hostError(i.fs.SyncDir(i.path(imagesDir)))
}

// empty makes a file for the image of a manifest, all of which is a hole.
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
