package daemon

import (
	"context"
	"errors"

	"agentbox/agentbox"
	"agentbox/agentbox/place"
	"agentbox/vmm/kernel"
)

// notifyMachines notes that there may be templates or kernels that the team wants. It does not
// block. Several calls count as one until keepMachines looks.
func (s *shares) notifyMachines() {
	select {
	case s.machines <- struct{}{}:
	default:
	}
}

// keepMachines copies the templates and kernels that were made here into the store for the team,
// whenever there may be new ones, until ctx ends. It runs in the background and only if there is a
// team, because it copies gigabytes that nobody else would want. A failure is logged and retried at
// the next change.
func (d *daemon) keepMachines(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.shares.machines:
		}
		if !d.shares.team.HasPeers() {
			continue
		}
		if err := errors.Join(d.keepTemplates(ctx), d.keepKernels(ctx)); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("templates and kernels are not offered to the team", "error", err)
		}
	}
}

// keepTemplates stores the templates that were made here, of images that are known by digest.
// Another member's templates are offered by that member.
func (d *daemon) keepTemplates(ctx context.Context) error {
	all, err := d.boxes.Templates()
	for key, origin := range all {
		if origin.By == "" && !origin.Image.IsZero() {
			err = errors.Join(err, d.shares.team.KeepTemplate(ctx, key, origin.Image, d.cfg.Home.Template(key)))
		}
	}
	return err
}

// keepKernels stores the guest kernels that were fetched here.
func (d *daemon) keepKernels(ctx context.Context) error {
	all, err := kernel.ListFetched(d.cfg.Home.Kernels())
	for _, k := range all {
		if k.By == "" && !k.Unknown {
			err = errors.Join(err, d.shares.team.KeepKernel(ctx, k.Release, k.Dir))
		}
	}
	return err
}

// dropMachines removes templates and kernels of members that are no longer trusted. gone reports
// whether the result of a maker is to be removed; image is zero for a kernel. Templates that boxes
// need to be resumed stay. See Manager.DropTemplates.
func (d *daemon) dropMachines(ctx context.Context, gone func(by string, image agentbox.Digest) bool) {
	err := errors.Join(
		d.boxes.DropTemplates(func(o place.Origin) bool { return gone(o.By, o.Image) }),
		kernel.Drop(ctx, d.cfg.Home.Kernels(), func(by string) bool { return gone(by, agentbox.Digest{}) }))
	if err != nil && ctx.Err() == nil {
		d.cfg.Log.Error("templates or kernels of a former builder cannot be removed", "error", err)
	}
}
