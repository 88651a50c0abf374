package daemon

import (
	"context"
	"fmt"
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
func (o chunkStore) Open(ctx context.Context, img image.Image) (images.LazyImage, error) {
	return o.OpenLazyImage(ctx, img)
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
		s, err := d.store.Store(ctx)
		if err != nil {
			return // already reported when the store was opened
		}
		s.Scrub(ctx, d.remotes.Source())
	}()
	return done
}

// checkStore reports problems of the store that need a person: damaged chunks that could not be
// repaired, or a key with two results.
func (d *daemon) checkStore(ctx context.Context) (string, error) {
	s, err := d.store.Store(ctx)
	if err != nil {
		return "", err
	}
	usage, err := s.Usage(ctx)
	if err != nil {
		return "", err
	}
	if damaged := s.Damaged(); len(damaged) > 0 {
		return "", agentbox.Errorf(agentbox.Corrupt, "damaged chunks in quarantine: %d, the first %s in %s at %d: %s",
			len(damaged), damaged[0].Digest.Short(), damaged[0].File, damaged[0].Offset, damaged[0].Why).
			WithHint("agentbox cache verify --from REMOTE gets them again; look at the disk (dmesg, smartctl)")
	}
	alarms, err := s.Alarms()
	if err != nil {
		return "", err
	}
	if len(alarms) > 0 {
		a := alarms[0]
		return "", agentbox.Errorf(agentbox.Conflict, "keys with two results: %d, the first %s: kept %s of producer %.8x, not %s of producer %.8x",
			len(alarms), agentbox.ShortName(a.Kept.Namespace+"/"+a.Kept.Key), a.Kept.Manifest.Short(), a.Kept.Producer, a.Lost.Manifest.Short(), a.Lost.Producer).
			WithHint("agentbox cache show --why %s lists what the key was computed from, which lacks an input; agentbox cache rm %s has it made anew",
				a.Kept.Manifest.Short(), a.Kept.Manifest.Short())
	}
	return fmt.Sprintf("%d MiB in %s, nothing damaged", usage.Bytes>>20, agentbox.Plural(usage.Manifests, "blob")), nil
}
