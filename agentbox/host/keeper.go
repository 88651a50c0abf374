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
		if img.Lazy != nil || img.Origin != "" || now.Sub(img.Created) < keepAfter {
			continue // what came from somebody is in the store already
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

// made says that there is an image that was not here a moment ago.
func (m *Manager) made() {
	select {
	case m.fresh <- struct{}{}:
	default:
	}
}

// keepFresh takes new images into the store at once and at full speed where the team waits for them.
func (m *Manager) keepFresh() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.fresh:
		}
		if m.team == nil || !m.team.Waits() {
			continue
		}
		list, err := m.images.List()
		if err != nil {
			m.log.Error("cannot list the images", "error", err)
			continue
		}
		for _, img := range list {
			if img.Lazy != nil || img.Origin != "" || len(img.Include) > 0 {
				continue
			}
			if _, err := m.origins.Keep(m.ctx, img, 0); err != nil && m.ctx.Err() == nil {
				m.log.Warn("an image is not in the store", "image", img.Digest.Short(), "error", err)
			}
		}
	}
}
