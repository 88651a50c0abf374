package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

// coldCluster is two machines: one has the image, the other one has nothing. Both run real daemons,
// so this measures all of agentbox, including policy and boxes. The other scenarios of transfers
// measure the exchange alone.
type coldCluster struct {
	daemons
	got int64 // bytes, before the first command of the last sample
}

// cold measures a machine with an empty home that joins the team and enters a box whose image the
// other one has, as a new colleague does. The second scenario is the bytes of the image that this
// took.
func (l *MeshLab) cold() []bench.Scenario {
	o := &coldCluster{daemons: daemons{l: l, name: "cold"}}
	all := append(sharing(o.open, o.close, l.scenario("mesh/cold-box", "", o.enter)),
		counted("mesh/cold-box-bytes", 1<<30, "mesh/cold-box", func() float64 { return float64(o.got) }))
	return bench.InBoxes(agentbox.Box{Isolation: agentbox.GVisor}, 0, all...)
}

// open makes the image on the first machine, and a network of the two. It checks that the first
// machine offers exactly one image.
func (o *coldCluster) open(ctx context.Context) (err error) {
	if err := o.repository(ctx); err != nil {
		return err
	}
	if err := o.makeImage(ctx, 0); err != nil {
		return err
	}
	if o.links, err = newLinks(ctx, 2, linkGigabit); err != nil {
		return err
	}
	if err := o.initTeam(ctx); err != nil {
		return err
	}
	peers, err := o.peers(ctx, 0, func(p []api.MeshPeer) bool { return p[0].Records["image"] > 0 })
	if err != nil || len(peers) != 1 {
		return errors.Join(err, agentbox.Errorf(agentbox.Unavailable, "the image is not offered"))
	}
	var images []api.Image
	if err := o.ask(ctx, 0, &images, "image", "ls", "--json"); err != nil || len(images) != 1 {
		return errors.Join(err, agentbox.Errorf(agentbox.Internal, "%d images on the first machine", len(images)))
	}
	return nil
}

// enter is one sample: a machine with an empty home joins, which is not timed, and runs its first
// command.
func (o *coldCluster) enter(ctx context.Context) (took time.Duration, err error) {
	o.got = 0
	defer func() { err = errors.Join(err, o.forget(ctx, 1)) }()
	if err := o.join(ctx, 1); err != nil {
		return 0, err
	}
	offered := func(all []api.MeshPeer) bool {
		return slices.ContainsFunc(all, func(p api.MeshPeer) bool { return p.State == "online" && p.Records["image"] > 0 })
	}
	if _, err := o.peers(ctx, 1, offered); err != nil {
		return 0, err
	}
	start := time.Now()
	if _, err := o.command(ctx, 1, true, "up", "-q", "--", "true"); err != nil {
		return 0, err
	}
	took = time.Since(start)
	peers, err := o.peers(ctx, 1, func([]api.MeshPeer) bool { return true })
	for _, p := range peers {
		o.got += p.Received
	}
	return took, err
}
