package images

import (
	"time"

	"agentbox/agentbox"
)

// How often keep looks, and how fast it reads. An image that was just made is used at once, by
// somebody who has waited long enough.
const (
	keepEvery = time.Minute
	keepRate  = 32 << 20 // bytes a second: a few hundredths of a processor
)

// keep takes the images that were here the last time it looked into the store, one after the other
// and gently: there they are read from time to time, repaired when they are damaged, and to be had
// by others. The disk holds them once. What fails is tried again the next time. It gives the images
// that are here now. When they were made is not asked: clocks are stepped.
func (i *Images) keep(before map[agentbox.Digest]bool) map[agentbox.Digest]bool {
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
			continue // what came from somebody is in the store already
		}
		_, err := i.Content.Keep(i.ctx, img, keepRate)
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

// KeepNow says that there may be an image that was not here a moment ago. It does not wait.
func (i *Images) KeepNow() {
	select {
	case i.fresh <- struct{}{}:
	default:
	}
}

// keepFresh takes new images into the store at once and at full speed where the team waits for
// them. Images with includes are not shared, so nobody waits for them.
func (i *Images) keepFresh() {
	for {
		select {
		case <-i.ctx.Done():
			return
		case <-i.fresh:
		}
		if i.Waits == nil || !i.Waits() {
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
			if _, err := i.Content.Keep(i.ctx, img, 0); err != nil && i.ctx.Err() == nil {
				i.Log.Warn("an image is not in the store", "image", img.Digest.Short(), "error", err)
			}
		}
	}
}
