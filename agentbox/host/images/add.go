package images

import (
	"time"

	"agentbox/agentbox"
)

// How often storeImages runs, and how fast it reads. Somebody waits for an image that was just
// made, so they must not compete for the disk.
const (
	storeEvery = time.Minute
	storeRate  = 32 << 20 // bytes a second: a few hundredths of a processor
)

// storeImages adds to the store the images that were already here when it last ran, slowly and one
// after the other. The store verifies and repairs them from time to time and offers them to others,
// and the disk holds them once. Failures are retried the next time. storeImages returns the images
// that are here now; it does not rely on their times, since clocks are stepped.
func (i *Images) storeImages(before map[agentbox.Digest]bool) map[agentbox.Digest]bool {
	list, err := i.Store.List()
	if err != nil {
		i.Log.Error("cannot list the images", "error", err)
		return before
	}
	now := map[agentbox.Digest]bool{}
	for _, img := range list {
		now[img.Digest] = true
	}
	for _, img := range list {
		if img.Lazy != nil || img.Origin != "" || !before[img.Digest] {
			continue // images from elsewhere are in the store already
		}
		_, err := i.ChunkStore.Add(i.ctx, img, storeRate)
		if i.ctx.Err() != nil {
			break
		}
		if agentbox.CodeOf(err) == agentbox.Corrupt {
			err = i.Store.Distrust(img.Digest)
		}
		if err != nil {
			i.Log.Warn("an image is not in the store", "image", img.Digest.Short(), "error", err)
		}
	}
	return now
}

// StoreNow says that there may be a new image. It does not block.
func (i *Images) StoreNow() {
	select {
	case i.imageAdded <- struct{}{}:
	default:
	}
}

// storeNew adds new images to the store at once and at full speed if the team waits for them.
// Images with includes are not shared.
func (i *Images) storeNew() {
	for {
		select {
		case <-i.ctx.Done():
			return
		case <-i.imageAdded:
		}
		if i.HasPeers == nil || !i.HasPeers() {
			continue
		}
		list, err := i.Store.List()
		if err != nil {
			i.Log.Error("cannot list the images", "error", err)
			continue
		}
		for _, img := range list {
			if img.Lazy != nil || img.Origin != "" || len(img.Include) > 0 {
				continue
			}
			if _, err := i.ChunkStore.Add(i.ctx, img, 0); err != nil && i.ctx.Err() == nil {
				i.Log.Warn("an image is not in the store", "image", img.Digest.Short(), "error", err)
			}
		}
	}
}
