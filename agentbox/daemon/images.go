package daemon

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// showImage returns an image with the names of the members that it came from, because host/images
// knows members only by PeerID.
func (d *daemon) showImage(ctx context.Context, req api.ImageRef, progress agentbox.Progress) (api.ImageDetail, error) {
	out, err := d.boxes.Images.Show(ctx, req, progress)
	if err != nil || d.shares.mesh == nil {
		return out, err
	}
	team := d.membership()
	out.MakerName = team.NameOf(out.Maker)
	for i := range out.Received {
		out.Received[i].Name = team.NameOf(out.Received[i].Peer)
	}
	return out, nil
}
