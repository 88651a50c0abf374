package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/templates"
	"agentbox/agentbox/workspace"
)

// Prune removes what nothing needs: templates no box refers to, images neither a box nor a recent build needs, kernels
// without a template, and, when it is told to, boxes whose directory or branch is gone and which hold no machine: there
// may be work in them that is nowhere else.
func (m *Manager) Prune(ctx context.Context, req api.PruneRequest, progress agentbox.Progress) (api.PruneResponse, error) {
	var out api.PruneResponse
	if err := m.boxes.unreadable(); err != nil { // nobody knows what it needs
		return out, err
	}
	for _, find := range []func(context.Context) ([]prunable, error){m.prunableBoxes, m.prunableTemplates, m.prunableImages, m.prunableAudits} {
		items, err := find(ctx)
		if err != nil {
			return out, err
		}
		for _, item := range items {
			if item.Kind == boxKind && !req.Boxes {
				progress.Say(fmt.Sprintf("box %s stays: %s, but there may be work in it; `agentbox rm %s` asks, `agentbox prune --boxes` removes it all the same", item.Name, item.Why, item.Name))
				continue
			}
			if !req.DryRun {
				if err := item.remove(); err != nil {
					return out, err
				}
			}
			out.Items = append(out.Items, item.PruneItem)
		}
	}
	return out, nil
}

// boxKind is how a box is called in what prune says.
const boxKind = "box"

// auditTime is how long the audit log of a box that is gone is kept.
const auditTime = 30 * 24 * time.Hour

func (m *Manager) prunableAudits(context.Context) ([]prunable, error) {
	entries, err := os.ReadDir(m.home.Audits())
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var out []prunable
	for _, e := range entries {
		id, err := agentbox.ParseBoxID(e.Name())
		info, infoErr := os.Stat(filepath.Join(m.home.Audits(), e.Name()))
		if err != nil || infoErr != nil || m.boxes.known(id) || time.Since(info.ModTime()) < auditTime {
			continue
		}
		dir := m.home.Audit(id)
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "audit", Name: id.String(), Bytes: home.DiskUsage(dir), Why: "its box has been gone for a month"},
			remove:    func() error { return os.RemoveAll(dir) },
		})
	}
	return out, nil
}

type prunable struct {
	api.PruneItem
	remove func() error
}

func (m *Manager) prunableBoxes(ctx context.Context) ([]prunable, error) {
	var out []prunable
	for _, b := range m.boxes.all() {
		rec := b.record()
		if rec.Phase != phaseReady || b.state(m.home) == agentbox.Running {
			continue
		}
		why := ""
		switch {
		case directoryGone(rec):
			why = "its directory is gone"
		case rec.Box.Lifetime == agentbox.LifetimeBranch && branchGone(ctx, rec):
			why = "its branch " + rec.Box.Branch + " is gone"
		default:
			continue
		}
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: boxKind, Name: rec.Box.Name, Bytes: home.DiskUsage(rec.names(m.home).Dir), Why: why},
			remove:    func() error { return m.remove(b) },
		})
	}
	return out, nil
}

func branchGone(ctx context.Context, rec record) bool {
	repo, err := workspace.Describe(ctx, rec.Box.Directory)
	if err != nil || rec.Box.Commit == "" || repo.Branch == rec.Box.Branch {
		return false
	}
	exists, err := workspace.HasBranch(ctx, repo, rec.Box.Branch)
	return err == nil && !exists
}

// usedTemplates are the keys of those that boxes are made from.
func (m *Manager) usedTemplates() map[string]bool {
	used := map[string]bool{}
	for _, b := range m.boxes.all() {
		used[b.record().Box.Template] = true
	}
	return used
}

// Templates tells which are here, and where they came from.
func (m *Manager) Templates() (map[string]templates.Origin, error) { return m.templates.Origins() }

// DropTemplates removes the templates of which gone is true, but for those that boxes are made from:
// these boxes need them to be resumed, and no other box gets them where their maker is not believed.
func (m *Manager) DropTemplates(gone func(templates.Origin) bool) error {
	all, err := m.templates.Origins()
	for key, origin := range all {
		if !gone(origin) {
			continue
		}
		if coolErr := m.pool.Cool(key); coolErr != nil || m.usedTemplates()[key] {
			err = errors.Join(err, coolErr)
			continue
		}
		err = errors.Join(err, m.templates.Discard(key))
	}
	return err
}

func (m *Manager) prunableTemplates(context.Context) ([]prunable, error) {
	used := m.usedTemplates()
	keys, err := m.templates.Unneeded(used)
	var out []prunable
	for _, key := range keys {
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "template", Name: templates.Short(key), Bytes: home.DiskUsage(m.home.Template(key)), Why: "no box is made from it"},
			remove:    func() error { return m.templates.Discard(key) },
		})
	}
	return out, err
}

func (m *Manager) prunableImages(ctx context.Context) ([]prunable, error) {
	list, err := m.Images.Unneeded()
	var out []prunable
	for _, img := range list {
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "image", Name: img.Name, Bytes: home.DiskUsage(filepath.Dir(img.Path)), Why: "no box uses it, and it is a week old"},
			remove:    func() error { return m.Images.Forget(ctx, img.Digest) },
		})
	}
	return out, err
}
