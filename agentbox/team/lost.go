package team

import (
	"context"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// searchTimeout bounds the search for holders of an image. A daemon that has just started has no
// connections yet, and making an image anew takes longer than this.
const searchTimeout = 3 * time.Second

// CheckAvailable returns an error if nobody can supply the missing pieces of a team image: the
// holders that can be reached lack them too, and no other remote is known. The caller then makes
// the image anew, so in doubt CheckAvailable returns nil, which means that the rest may still come.
// After this machine has left the team, the error has code Unavailable; otherwise it is NotFound.
func (t *Team) CheckAvailable(ctx context.Context, img image.Image) error {
	if img.Lazy == nil || img.Lazy.From != layers.Team || t.Images.Remotes.Any() {
		return nil
	}
	p := t.current()
	if p == nil {
		return agentbox.Errorf(agentbox.Unavailable, "this machine has left the team that has the rest of image %s", img.Digest.Short())
	}
	m, err := t.Images.ManifestOf(ctx, img)
	if err != nil {
		return nil // the fetch of the image will show
	}
	survey, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	// sure is false if some of the holders that can be reached did not answer.
	missing, sure, err := p.exchange.MissingChunks(survey, img.Lazy.Manifest, m)
	if err != nil || !sure || len(missing) == 0 || p.busy(img.Lazy.Manifest, t.Holders(img.Lazy.Manifest)) || ctx.Err() != nil {
		return nil
	}
	return agentbox.Errorf(agentbox.NotFound, "no reachable peer has %d of the %d pieces of image %s, the first of them piece %d",
		len(missing), len(m.Chunks), img.Digest.Short(), missing[0])
}

// busy reports whether one of these members is online but had no time to answer.
func (m *membership) busy(manifest agentbox.Digest, ids []identity.PeerID) bool {
	for _, id := range ids {
		if time.Since(m.node.LastHeard(id)) < silenceTimeout && !m.exchange.HasSession(id, manifest) {
			return true
		}
	}
	return false
}
