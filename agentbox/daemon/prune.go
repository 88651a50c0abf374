package daemon

import (
	"context"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// prune adds the old evidence of tasks that left no work to what boxes do not need. Which these
// are, the queue says. They are removed as `task rm` does, through the queue, so that none is
// removed under it.
func (d *daemon) prune(ctx context.Context, req api.PruneRequest, progress agentbox.Progress) (api.PruneResponse, error) {
	out, err := d.boxes.Pruner.Prune(ctx, req, progress)
	if err != nil {
		return out, err
	}
	for _, t := range d.queue.Spent() {
		size := home.DiskUsage(filepath.Join(d.cfg.Home.Tasks(), t.ID.String()))
		if !req.DryRun {
			if err := d.queue.Remove(t.ID); err != nil {
				return out, err
			}
		}
		out.Items = append(out.Items, api.PruneItem{Kind: "task", Name: t.ID.String(), Bytes: size, Why: "it ended a month ago and left no work"})
	}
	return out, nil
}
