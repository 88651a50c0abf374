package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/bench"
)

// Machines of an absentTeam.
const (
	absentHolder = iota // has the setup result, and leaves
	absentMember        // would get it from the holder
	absentNobody        // is in no team
)

// absentTime is how long the holder has been gone when the box is entered.
const absentTime = 5 * time.Second

// absentTeam is a team of two and a machine without a team. One member has run the setup of a box,
// and is unreachable when the other enters that box. It shows the cost of a team that cannot help:
// up must not wait for it.
type absentTeam struct {
	daemons
	variant int // of the repository's lockfile; each has another key
}

// absent measures a machine that enters boxes for which its unreachable team has the setup result,
// compared with one without a team. A machine can be gone in three ways: its daemon died, its cable
// is out, or its packets are lost. Each of them shows the others less than the one before.
func (l *MeshLab) absent() []bench.Scenario {
	o := &absentTeam{daemons: daemons{l: l, name: "absent"}}
	baseline := l.scenario("mesh/up-no-team", "", func(ctx context.Context) (time.Duration, error) {
		if err := o.vary(); err != nil {
			return 0, err
		}
		return o.enter(ctx, absentNobody)
	})
	out := []bench.Scenario{baseline}
	for _, s := range []struct {
		name        string
		goes, comes func(ctx context.Context) error
	}{
		{"mesh/up-dead", func(ctx context.Context) error { return o.kill(ctx, absentHolder) }, func(context.Context) error { return nil }},
		{"mesh/up-cut-off", o.cable(true), o.cable(false)},
		{"mesh/up-lossy", o.loses(true), o.loses(false)},
	} {
		out = append(out, l.scenario(s.name, baseline.Name, func(ctx context.Context) (time.Duration, error) {
			return o.without(ctx, s.goes, s.comes)
		}))
	}
	return bench.InBoxes(agentbox.Box{Isolation: agentbox.GVisor}, 0, sharing(o.open, o.close, out...)...)
}

// cable unplugs the holder's cable, or plugs it in again.
func (o *absentTeam) cable(out bool) func(context.Context) error {
	return func(ctx context.Context) error { return o.links.Cut(ctx, absentHolder, out) }
}

// loses drops all of the holder's packets, or none.
func (o *absentTeam) loses(all bool) func(context.Context) error {
	return func(ctx context.Context) error { return o.links.Lose(ctx, absentHolder, all) }
}

// open makes the image on each machine, so that only setup results matter to the samples, and makes
// a team of the first two. It does so once for all scenarios of the group.
func (o *absentTeam) open(ctx context.Context) (err error) {
	if o.links != nil {
		return nil
	}
	if err := o.repository(ctx); err != nil {
		return err
	}
	if err := o.configure(coldImage + "setup: [\"true\"]\nlockfiles: [lock]\n"); err != nil {
		return err
	}
	if err := o.vary(); err != nil {
		return err
	}
	for i := range 3 {
		if err := o.makeImage(ctx, i); err != nil {
			return err
		}
	}
	if o.links, err = newLinks(ctx, 3, linkGigabit); err != nil {
		return err
	}
	return errors.Join(o.initTeam(ctx), o.join(ctx, absentMember))
}

// vary changes the key of the setup result, so that no result of an earlier sample fits.
func (o *absentTeam) vary() error {
	o.variant++
	return os.WriteFile(filepath.Join(o.repo, "lock"), fmt.Appendln(nil, o.variant), 0o644)
}

// enter returns the time to make a box and run its first command. It then removes the box, which is
// not timed.
func (o *absentTeam) enter(ctx context.Context, i int) (time.Duration, error) {
	start := time.Now()
	_, err := o.command(ctx, i, true, "up", "-q", "--", "true")
	took := time.Since(start)
	_, rmErr := o.command(ctx, i, true, "rm", "--force")
	return took, errors.Join(err, rmErr)
}

// without is one sample: once the member knows that the holder has what it needs, the holder leaves
// and the member enters a box. In any case the holder is back afterwards, with a daemon.
func (o *absentTeam) without(ctx context.Context, leave, comeBack func(ctx context.Context) error) (took time.Duration, err error) {
	if err := o.vary(); err != nil {
		return 0, err
	}
	had := 0
	holder := func(p []api.MeshPeer) *api.MeshPeer {
		for i := range p {
			if p[i].Name == "seed" {
				return &p[i]
			}
		}
		return &api.MeshPeer{}
	}
	here := func(p []api.MeshPeer) bool { had = holder(p).Records["setup"]; return holder(p).State == "online" }
	if _, err := o.peers(ctx, absentMember, here); err != nil {
		return 0, err
	}
	if _, err := o.enter(ctx, absentHolder); err != nil {
		return 0, err
	}
	offered := func(p []api.MeshPeer) bool { return holder(p).Records["setup"] > had }
	if _, err := o.peers(ctx, absentMember, offered); err != nil {
		return 0, err
	}
	if err := leave(ctx); err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, comeBack(context.WithoutCancel(ctx)))
		_, startErr := o.command(context.WithoutCancel(ctx), absentHolder, true, "mesh", "status")
		err = errors.Join(err, startErr)
	}()
	if err := bench.Sleep(ctx, absentTime); err != nil {
		return 0, err
	}
	return o.enter(ctx, absentMember)
}
