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

// content gives boxes their images out of the store. It makes the store what host/images needs
// (images.Content).
type content struct{ *layers.Images }

// Open opens an image to be completed; see images.Content.
func (o content) Open(ctx context.Context, img image.Image) (images.Filling, error) {
	return o.Fill(ctx, img)
}

// distrust makes the store of images read an image again that the store of chunks found damaged:
// they have one file. The next use of the image then reads and hashes it first.
func distrust(images *image.Store, log *slog.Logger) func(agentbox.Digest) {
	return func(d agentbox.Digest) {
		if err := images.Distrust(d); err != nil {
			log.Error("an image is damaged and may be used", "image", d.Short(), "error", err)
		}
	}
}

// scrub looks through the store, gently, as long as the daemon runs. The channel is closed when it
// has stopped. The store says how gently. Damage is repaired from remotes and the team where they
// have it.
func (d *daemon) scrub(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err := d.store.Store(ctx)
		if err != nil {
			return // said by who opened it
		}
		s.Scrub(ctx, d.remotes.Source())
	}()
	return done
}

// checkStore tells whether something is wrong in the store that a person has to look at: damaged
// chunks that could not be repaired, or a key with two results.
func (d *daemon) checkStore(ctx context.Context) (string, error) {
	s, err := d.store.Store(ctx)
	if err != nil {
		return "", err
	}
	usage, err := s.Usage(ctx)
	if err != nil {
		return "", err
	}
	if ill := s.Damaged(); len(ill) > 0 {
		return "", agentbox.Errorf(agentbox.Corrupt, "chunks of the store that are damaged and put aside: %d, the first %s in %s at %d: %s",
			len(ill), ill[0].Digest.Short(), ill[0].File, ill[0].Offset, ill[0].Why).
			WithHint("agentbox cache verify --from PLACE gets them again; look at the disk (dmesg, smartctl)")
	}
	alarms, err := s.Alarms()
	if err != nil {
		return "", err
	}
	if len(alarms) > 0 {
		a := alarms[0]
		return "", agentbox.Errorf(agentbox.Conflict, "keys with two results: %d, the first %s: kept %s of producer %.8x, not %s of producer %.8x",
			len(alarms), agentbox.ShortName(a.Kept.Namespace+"/"+a.Kept.Key), a.Kept.Manifest.Short(), a.Kept.Producer, a.Lost.Manifest.Short(), a.Lost.Producer).
			WithHint("agentbox cache show --why %s tells what the key was computed from: something is missing there; agentbox cache rm %s has it made anew",
				a.Kept.Manifest.Short(), a.Kept.Manifest.Short())
	}
	return fmt.Sprintf("%d MiB in %s, nothing damaged", usage.Bytes>>20, agentbox.Plural(usage.Manifests, "blob")), nil
}
