package daemon

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/agentbox/host/templates"
	"agentbox/vmm/kernel"
)

// machinesMade says that the team may want templates or kernels that are here. It does not wait.
// Several calls before it is looked at are one.
func (s *shares) machinesMade() {
	select {
	case s.machines <- struct{}{}:
	default:
	}
}

// keepMachines takes what machines start from, as far as it was made here, into the store for the
// team, whenever there may be more of it, until ctx ends. It is done in the background and only
// where there is a team: it copies gigabytes that nobody else would want. A failure is logged, and
// the next change tries again.
func (d *daemon) keepMachines(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.machines:
		}
		if !d.team.Waits() {
			continue
		}
		if err := errors.Join(d.keepTemplates(ctx), d.keepKernels(ctx)); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("what machines start from is not offered to the team", "error", err)
		}
	}
}

// keepTemplates offers the templates that were made here, of images that are known by digest. What
// another member made is offered by that member.
func (d *daemon) keepTemplates(ctx context.Context) error {
	all, err := d.boxes.Templates()
	for key, origin := range all {
		if origin.By == "" && !origin.Image.IsZero() {
			err = errors.Join(err, d.team.KeepTemplate(ctx, key, origin.Image, d.cfg.Home.Template(key)))
		}
	}
	return err
}

// keepKernels offers the guest kernels that were made here.
func (d *daemon) keepKernels(ctx context.Context) error {
	all, err := kernel.ListFetched(d.cfg.Home.Kernels())
	for _, k := range all {
		if k.By == "" {
			err = errors.Join(err, d.team.KeepKernel(ctx, k.Release, k.Dir))
		}
	}
	return err
}

// dropMachines removes templates and kernels by members that are not believed any more. gone tells
// whether what somebody made, of an image if it is not zero, is to go. Templates that boxes need to
// be resumed stay, see Manager.DropTemplates.
func (d *daemon) dropMachines(ctx context.Context, gone func(by string, image agentbox.Digest) bool) {
	err := errors.Join(
		d.boxes.DropTemplates(func(o templates.Origin) bool { return gone(o.By, o.Image) }),
		kernel.Drop(ctx, d.cfg.Home.Kernels(), func(by string) bool { return gone(by, agentbox.Digest{}) }))
	if err != nil && ctx.Err() == nil {
		d.cfg.Log.Error("templates or kernels by who is no builder any more stay", "error", err)
	}
}
