package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Machines of an absentTeam.
const (
	absentHolder = iota // has what setup made, and goes
	absentMember        // would have it from there
	absentNobody        // is in no team
)

// silence is how long who went has been gone when the box is entered.
const silence = 5 * time.Second

// absentTeam is a team of two, of which one is not there when the other enters a box whose setup
// that one has run, and a machine that is in no team. It shows what a team that cannot help costs:
// up must not wait for it.
type absentTeam struct {
	daemons
	variant int // of the repository's lockfile: each is another key
}

// absent has a machine enter boxes for which its team has what it needs, while the team is not
// there, beside one that is in no team. A machine can be gone in three ways: its daemon died, its
// cable is out, or its packets get lost, of which the system tells the others less and less.
func (l *MeshLab) absent() []Scenario {
	o := &absentTeam{daemons: daemons{l: l, name: "absent"}}
	baseline := l.scenario("mesh/up-no-team", "", func(ctx context.Context) (time.Duration, error) {
		if err := o.vary(); err != nil {
			return 0, err
		}
		return o.enter(ctx, absentNobody)
	})
	out := []Scenario{baseline}
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
	return inBoxes(agentbox.Box{Isolation: agentbox.GVisor}, 0, sharing(o.open, o.close, out...)...)
}

// cable takes the holder's cable out, or puts it back.
func (o *absentTeam) cable(out bool) func(context.Context) error {
	return func(ctx context.Context) error { return o.links.Cut(ctx, absentHolder, out) }
}

// loses has the holder's packets get lost, all of them, or none.
func (o *absentTeam) loses(all bool) func(context.Context) error {
	return func(ctx context.Context) error { return o.links.Lose(ctx, absentHolder, all) }
}

// open has each machine make the image, so that the samples are about what setup makes, and the
// first two a team. It does so once, for all scenarios of the group.
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
	return errors.Join(o.found(ctx), o.join(ctx, absentMember))
}

// vary makes the key of what setup makes another one, so that nothing that an earlier sample made
// fits.
func (o *absentTeam) vary() error {
	o.variant++
	return os.WriteFile(filepath.Join(o.repo, "lock"), fmt.Appendln(nil, o.variant), 0o644)
}

// enter is timed: a new box, and its first command. The box is removed, which is not.
func (o *absentTeam) enter(ctx context.Context, i int) (time.Duration, error) {
	start := time.Now()
	_, err := o.command(ctx, i, true, "up", "-q", "--", "true")
	took := time.Since(start)
	_, rmErr := o.command(ctx, i, true, "rm", "--force")
	return took, errors.Join(err, rmErr)
}

// without is one sample: the member knows that the holder has what it needs, the holder goes, and
// the member enters a box all the same. Whatever happened, the holder is back afterwards, with a
// daemon, for the next sample.
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
	here := func(p []api.MeshPeer) bool { had = holder(p).Records["setup"]; return holder(p).State == "here" }
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
	if err := sleep(ctx, silence); err != nil {
		return 0, err
	}
	return o.enter(ctx, absentMember)
}
