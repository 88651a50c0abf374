package daemon

import (
	"context"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
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
