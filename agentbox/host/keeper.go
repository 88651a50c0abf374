package host

import (
	"time"

	"agentbox/agentbox"
)

// How often keepImages looks, and how fast it reads. An image that was just made is used at once,
// by
// somebody who has waited long enough.
const (
	keepEvery = time.Minute
	keepRate  = 32 << 20 // bytes a second: a few hundredths of a processor
)

// keepImages takes the images that were here the last time it looked into the store, one after the
// other and gently: there they are read from time to time, mended when they are damaged, and to be
// had by others. The disk holds them once. What fails is tried again the next time. It gives the
// images that are here now. When they were made is not asked: clocks are stepped.
func (m *Manager) keepImages(before map[agentbox.Digest]bool) map[agentbox.Digest]bool {
	list, err := m.images.List()
	if err != nil {
		m.log.Error("cannot list the images", "error", err)
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
		_, err := m.origins.Keep(m.ctx, img, keepRate)
		if m.ctx.Err() != nil {
			break
		}
		if agentbox.CodeOf(err) == agentbox.Corrupt {
			err = m.images.Distrust(img.Digest)
		}
		if err != nil {
			m.log.Warn("an image is not in the store", "image", img.Digest.Short(), "error", err)
		}
	}
	return now
}

// made says that there is an image that was not here a moment ago.
func (m *Manager) made() {
	select {
	case m.fresh <- struct{}{}:
	default:
	}
}

// keepFresh takes new images into the store at once and at full speed where the team waits for
// them.
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
