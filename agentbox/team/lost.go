package team

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// lostTime is how long holders of an image may take to be found. A daemon that has just begun has
// met nobody yet, and making an image anew takes longer than this.
const lostTime = 3 * time.Second

// Lost says what of an image that came from the team, and is not all here, can be had from nobody:
// those who have some of it and can be reached lack it too, and no other remote is known. nil: the
// rest may come. Its caller makes the image anew then, so in doubt the answer is nil.
func (t *Team) Lost(ctx context.Context, img image.Image) error {
	if img.Lazy == nil || img.Lazy.From != layers.Team || t.Images.Remotes.Any() {
		return nil
	}
	p := t.now()
	if p == nil {
		return agentbox.Errorf(agentbox.Unavailable, "this machine has left the team that has the rest of image %s", img.Digest.Short())
	}
	m, err := t.Images.ManifestOf(ctx, img)
	if err != nil {
		return nil // who gets the image finds out
	}
	survey, cancel := context.WithTimeout(ctx, lostTime)
	defer cancel()
	// sure is false where some who can be reached did not say.
	missing, sure, err := p.exchange.Lacking(survey, img.Lazy.Manifest, m)
	if err != nil || !sure || len(missing) == 0 || p.busy(img.Lazy.Manifest, t.Holders(img.Lazy.Manifest)) || ctx.Err() != nil {
		return nil
	}
	return agentbox.Errorf(agentbox.NotFound, "nobody who can be reached has %d of the %d pieces of image %s, the first of them piece %d",
		len(missing), len(m.Chunks), img.Digest.Short(), missing[0])
}

// busy tells whether one of these members is there, and had no time to say what it has.
func (p *part) busy(manifest agentbox.Digest, ids []identity.PeerID) bool {
	for _, id := range ids {
		if time.Since(p.node.Heard(id)) < heardTime && !p.exchange.Meets(id, manifest) {
			return true
		}
	}
	return false
}
