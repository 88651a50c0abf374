package host

import (
	"time"

	"agentbox/agentbox"
)

// Times and rate of keepImages. An image that was just made is used at once, by somebody who has waited long enough.
const (
	keepEvery = time.Minute
	keepAfter = time.Minute // since it was made
	keepRate  = 32 << 20    // bytes a second: a few hundredths of a processor
)

// keepImages takes the images that were made a while before now into the store, one after the other and gently: there they are read from time
// to time, mended when they are damaged, and to be had by others. The disk holds them once. What fails is tried again the next time.
func (m *Manager) keepImages(now time.Time) {
	list, err := m.images.List()
	if err != nil {
		m.log.Error("cannot list the images", "error", err)
		return
	}
	for _, img := range list {
		if img.Lazy != nil || now.Sub(img.Created) < keepAfter {
			continue
		}
		_, err := m.origins.Keep(m.ctx, img, keepRate)
		if m.ctx.Err() != nil {
			return
		}
		if agentbox.CodeOf(err) == agentbox.Corrupt {
			err = m.images.Distrust(img.Digest)
		}
		if err != nil {
			m.log.Warn("an image is not in the store", "image", img.Digest.Short(), "error", err)
		}
	}
}
