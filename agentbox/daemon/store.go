package daemon

import (
	"context"
	"log/slog"

	"agentbox/agentbox"
	"agentbox/agentbox/host/images"
	"agentbox/agentbox/layers"
	"agentbox/vmm/image"
)

// chunkStore provides images for boxes from the store. It adapts the store to images.ChunkStore,
// the interface that host/images needs.
type chunkStore struct{ *layers.Images }

// Open opens an image to be completed. See images.ChunkStore.
func (c chunkStore) Open(ctx context.Context, img image.Image) (images.LazyImage, error) {
	return c.OpenLazyImage(ctx, img)
}

// reverifyDamaged makes the store of images verify an image again if the store of chunks found it
// damaged, since they share one file. The next use of the image then reads and hashes it first.
func reverifyDamaged(images *image.Store, log *slog.Logger) func(agentbox.Digest) {
	return func(d agentbox.Digest) {
		if err := images.Distrust(d); err != nil {
			log.Error("an image is damaged and may be used", "image", d.Short(), "error", err)
		}
	}
}

// scrub verifies the store in the background as long as the daemon runs, at the rate that the store
// sets. The channel is closed when it has stopped. Damage is repaired from remotes and the team if
// they have the content.
func (d *daemon) scrub(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err := d.shares.store.Store(ctx)
		if err != nil {
			return // already reported when the store was opened
		}
		s.Scrub(ctx, d.shares.remotes.Source())
	}()
	return done
}
