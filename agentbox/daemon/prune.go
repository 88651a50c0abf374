package daemon

import (
	"context"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/home"
	"agentbox/agentbox/source"
)

// prune also removes sources, and the old evidence of tasks that left no work. The queue decides which those
// are. They are removed through the queue, as `task rm` does, so that none is removed while the
// queue uses it.
func (d *daemon) prune(ctx context.Context, req api.PruneRequest, progress agentbox.Progress) (api.PruneResponse, error) {
	out, err := d.boxes.Pruner.Prune(ctx, req, progress)
	if err != nil {
		return out, err
	}
	unneeded, err := d.pruneSources(req.DryRun)
	if err != nil {
		return out, err
	}
	out.Items = append(out.Items, unneeded...)
	for _, t := range d.queue.Expired() {
		size := home.DiskUsage(filepath.Join(d.cfg.Home.Tasks(), t.ID.String()))
		if !req.DryRun {
			if err := d.queue.Remove(t.ID); err != nil {
				return out, err
			}
		}
		out.Items = append(out.Items, api.PruneItem{Kind: "task", Name: t.ID.String(), Bytes: size, Reason: "it ended a month ago and left no work"})
	}
	return out, nil
}

// neededSources are the sources of boxes, and of tasks that have not ended. The error is about boxes
// that cannot be read: what they need is not known.
func (d *daemon) neededSources() (map[agentbox.Digest]bool, error) {
	needed, err := d.boxes.Sources()
	all, _ := d.queue.Store.List() // a task that cannot be read does not run
	for _, t := range all {
		if t.State.Done() && !d.handover.NeedsSource(t) {
			continue
		}
		refs := []*agentbox.SourceRef{t.Source, t.Continue}
		if last := t.Last(); last != nil {
			refs = append(refs, last.Continue)
		}
		for _, ref := range refs {
			if ref != nil {
				needed[ref.Digest] = true
			}
		}
	}
	return needed, err
}

func (d *daemon) pruneSources(dryRun bool) (items []api.PruneItem, err error) {
	needed, err := d.neededSources()
	if err != nil {
		return nil, err
	}
	all, err := d.sources.Unneeded(needed)
	for _, u := range all {
		item := api.PruneItem{Kind: "source", Name: u.Digest.Short(), Bytes: home.DiskUsage(u.Dir), Reason: "no task and no box is made from it"}
		if !dryRun {
			if err := d.sources.Remove(u.Digest); err != nil {
				return items, err
			}
		}
		items = append(items, item)
	}
	return items, err
}

// sweepSaves drops the snapshots of tasks that earlier daemons were killed with.
func (d *daemon) sweepSaves(ctx context.Context) {
	if err := d.saves.Sweep(ctx, d.store, d.started); err != nil && ctx.Err() == nil {
		d.cfg.Log.Warn("cannot remove snapshots of tasks that nobody needs", "error", err)
	}
}

// keepSources gives back sources that nobody has used for a while, until ctx ends.
func (d *daemon) keepSources(ctx context.Context) {
	for background.Sleep(ctx, source.Grace) {
		needed, err := d.neededSources()
		if err == nil {
			err = d.sources.Collect(needed)
		}
		if err != nil {
			d.cfg.Log.Warn("cannot remove sources that nobody needs", "error", err)
		}
	}
}
