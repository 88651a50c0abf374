package bench

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// coldCluster is two machines: one has the image, the other one has nothing. It is all of agentbox
// that is measured here, policy and boxes included, by real daemons: the other scenarios of
// transfers leave all but the exchange out.
type coldCluster struct {
	daemons
	got int64 // before the first command of the last sample, bytes
}

// cold has a machine without anything join the team and enter a box whose image the other one has,
// as a new colleague does. The second scenario is how many bytes that took of the image.
func (l *MeshLab) cold() []Scenario {
	o := &coldCluster{daemons: daemons{l: l, name: "cold"}}
	entered := l.scenario("mesh/cold-box", "", o.enter)
	entered.Isolation, entered.Setup, entered.Teardown = agentbox.GVisor, o.open, o.close
	came := Scenario{
		Name: "mesh/cold-box-bytes", Isolation: agentbox.GVisor, Unit: Bytes, Ceiling: 1 << 30,
		Measure: func(context.Context) (float64, error) {
			if o.got == 0 {
				return 0, agentbox.Errorf(agentbox.Invalid, "they are counted in mesh/cold-box: measure both")
			}
			return float64(o.got), nil
		},
	}
	return []Scenario{entered, came}
}

// open makes the image on the first machine, and the two of them a network. It is certain
// afterwards that the first machine offers the image, and that it has one only.
func (o *coldCluster) open(ctx context.Context) (err error) {
	if err := o.repository(ctx); err != nil {
		return err
	}
	// The packages come from outside, where the machines of the team have no way to.
	for _, args := range [][]string{{"up", "--detach", "-q"}, {"rm", "--force"}, {"daemon", "stop"}} {
		if _, err := o.command(ctx, 0, false, args...); err != nil {
			return err
		}
	}
	if o.links, err = newLinks(ctx, 2, linkGigabit); err != nil {
		return err
	}
	if err := o.found(ctx); err != nil {
		return err
	}
	peers, err := o.peers(ctx, 0, func(p []api.MeshPeer) bool { return p[0].Records["image"] > 0 })
	if err != nil || len(peers) != 1 {
		return errors.Join(err, agentbox.Errorf(agentbox.Unavailable, "the image is not offered"))
	}
	out, err := o.command(ctx, 0, true, "image", "ls", "--json")
	if err != nil {
		return err
	}
	var images []api.Image
	if err := json.Unmarshal([]byte(out), &images); err != nil || len(images) != 1 {
		return errors.Join(err, agentbox.Errorf(agentbox.Internal, "%d images on the first machine", len(images)))
	}
	return nil
}

// enter is one sample: a machine with an empty home joins, which does not count, and its first
// command runs.
func (o *coldCluster) enter(ctx context.Context) (took time.Duration, err error) {
	o.got = 0
	defer func() { err = errors.Join(err, o.forget(ctx, 1)) }()
	if err := o.join(ctx, 1); err != nil {
		return 0, err
	}
	offered := func(p []api.MeshPeer) bool {
		for _, one := range p {
			if one.State == "here" && one.Records["image"] > 0 {
				return true
			}
		}
		return false
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
