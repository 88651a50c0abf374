// Package prune finds what nothing on this machine needs any more, and removes it when it is told
// to. What is needed the boxes say: a home with a box whose record cannot be read is not pruned,
// since what that box needs is not known. It frees what a user can get again by waiting; work it
// touches only when it is told so in as many words.
package prune

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/templates"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// Pruner prunes a home. It runs beside everything else: what is in use at this moment has a user
// that Boxes or Images know.
type Pruner struct {
	Home      home.Home
	Boxes     Boxes
	Templates Templates
	Images    Images
}

// Boxes say what is needed.
type Boxes interface {
	// Unreadable is about boxes whose needs nobody knows, nil when there are none.
	Unreadable() error
	Known(id agentbox.BoxID) bool
	// Templates are the keys of those that boxes are made from.
	Templates() map[string]bool
	// Idle are the boxes without a machine.
	Idle() []Box
}

// Box is one of them.
type Box struct {
	agentbox.Box
	Detached bool         // its Branch is a commit
	Dir      string       // of its files
	Remove   func() error // Conflict if the box has a machine by now
}

// Templates are what boxes start from (templates.Templates).
type Templates interface {
	Unneeded(used map[string]bool) ([]string, error)
	Discard(key string) error
}

// Images are those of this machine (images.Images).
type Images interface {
	Unneeded() ([]image.Image, error)
	Forget(ctx context.Context, d agentbox.Digest) error
}

// Prune removes what nothing needs: templates no box refers to, images neither a box nor a recent
// build needs, audit logs of boxes long gone, and, when it is told to, boxes whose directory or
// branch is gone and which hold no machine: there may be work in them that is nowhere else. With
// DryRun it only lists them. It stops at the first thing that cannot be removed. Boxes go first, so
// that what they alone needed goes with them.
func (p Pruner) Prune(ctx context.Context, req api.PruneRequest, progress agentbox.Progress) (api.PruneResponse, error) {
	var out api.PruneResponse
	if err := p.Boxes.Unreadable(); err != nil {
		return out, err
	}
	for _, find := range []func(context.Context) ([]prunable, error){p.boxes, p.templates, p.images, p.audits} {
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

// auditTime is how long the audit log of a box that is gone is kept: for the question of what it
// did, which comes late.
const auditTime = 30 * 24 * time.Hour

// prunable is something that nothing needs, with what removes it.
type prunable struct {
	api.PruneItem
	remove func() error
}

// audits are the logs of boxes that are gone. The time is that of the last change of the directory.
func (p Pruner) audits(context.Context) ([]prunable, error) {
	entries, err := os.ReadDir(p.Home.Audits())
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var out []prunable
	for _, e := range entries {
		id, err := agentbox.ParseBoxID(e.Name())
		info, infoErr := os.Stat(filepath.Join(p.Home.Audits(), e.Name()))
		if err != nil || infoErr != nil || p.Boxes.Known(id) || time.Since(info.ModTime()) < auditTime {
			continue
		}
		dir := p.Home.Audit(id)
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "audit", Name: id.String(), Bytes: home.DiskUsage(dir), Why: "its box has been gone for a month"},
			remove:    func() error { return os.RemoveAll(dir) },
		})
	}
	return out, nil
}

// boxes are those without a machine whose checkout is gone, or the branch of it that they were made
// for.
func (p Pruner) boxes(ctx context.Context) ([]prunable, error) {
	var out []prunable
	for _, b := range p.Boxes.Idle() {
		why := ""
		switch {
		case workspace.Gone(b.Directory):
			why = "its directory is gone"
		case b.Lifetime == agentbox.LifetimeBranch && branchGone(ctx, b):
			why = "its branch " + b.Branch + " is gone"
		default:
			continue
		}
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: boxKind, Name: b.Name, Bytes: home.DiskUsage(b.Dir), Why: why},
			remove:    b.Remove,
		})
	}
	return out, nil
}

// branchGone tells whether the branch of a box is gone from its checkout. What cannot be found out
// is not gone. A box that began without a commit, or on a detached HEAD, has no branch that could be
// looked for.
func branchGone(ctx context.Context, b Box) bool {
	repo, err := workspace.Describe(ctx, b.Directory)
	if err != nil || b.Commit == "" || b.Detached || repo.Branch == b.Branch {
		return false
	}
	exists, err := workspace.HasBranch(ctx, repo, b.Branch)
	return err == nil && !exists
}

// templates are those that no box, and no machine of the pool, was made from.
func (p Pruner) templates(context.Context) ([]prunable, error) {
	keys, err := p.Templates.Unneeded(p.Boxes.Templates())
	var out []prunable
	for _, key := range keys {
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "template", Name: templates.Short(key), Bytes: home.DiskUsage(p.Home.Template(key)), Why: "no box is made from it"},
			remove:    func() error { return p.Templates.Discard(key) },
		})
	}
	return out, err
}

// images are those that have had no user for a week, see images.Unneeded.
func (p Pruner) images(ctx context.Context) ([]prunable, error) {
	list, err := p.Images.Unneeded()
	var out []prunable
	for _, img := range list {
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "image", Name: img.Name, Bytes: home.DiskUsage(filepath.Dir(img.Path)), Why: "no box uses it, and it is a week old"},
			remove:    func() error { return p.Images.Forget(ctx, img.Digest) },
		})
	}
	return out, err
}
