package team

import (
	"context"
	"time"

	"agentbox/agentbox/layers"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
	"agentbox/vmm/image"
)

// lostTime is how long holders of an image may take to be found. A daemon that has just begun has
// met nobody yet, and making an image anew takes longer than this.
const lostTime = 3 * time.Second

// Lost tells whether the rest of an image that came from the team, and is not all here, can be had
// from nobody: none of those who have some of it can be reached, and no other remote is known.
func (t *Team) Lost(ctx context.Context, img image.Image) bool {
	if img.Lazy == nil || img.Lazy.From != layers.Team || t.Images.Remotes.Any() {
		return false
	}
	p := t.now()
	if p == nil {
		return true
	}
	ids := (holders{t}).Holders(img.Lazy.Manifest)
	for _, id := range ids {
		if time.Since(p.node.Heard(id)) < heardTime {
			return false
		}
	}
	return !p.reaches(ctx, ids) && ctx.Err() == nil
}

// reaches tells whether one of these members answers.
func (p *part) reaches(ctx context.Context, ids []identity.PeerID) bool {
	ctx, cancel := context.WithTimeout(ctx, lostTime)
	defer cancel()
	answers := make(chan bool, len(ids))
	for _, id := range ids {
		go func() { // it ends with ctx
			c, err := p.node.Dial(ctx, id, wire.Blobs)
			if err == nil {
				_ = c.Close()
			}
			answers <- err == nil
		}()
	}
	any := false
	for range ids {
		if <-answers {
			any = true
			cancel()
		}
	}
	return any
}
