// Package prune finds what nothing on this machine needs any more, and removes it on request. It
// does not decide what is needed: boxes say so, and if the record of one cannot be read, nothing is
// pruned. It removes what a user gets again by waiting, and work only when asked for explicitly.
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
	"agentbox/agentbox/place"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/image"
)

// Pruner prunes a home. It may run beside everything else, since Boxes and Images know what is in
// use.
type Pruner struct {
	Home      home.Home
	Boxes     Boxes
	Templates Templates
	Images    Images
}

// Boxes say what is needed.
type Boxes interface {
	// Unreadable is the error about boxes whose needs are unknown, nil if there are none.
	Unreadable() error
	Known(id agentbox.BoxID) bool
	// Templates are the keys of the templates that boxes were made from.
	Templates() map[string]bool
	// Idle are the boxes without a machine.
	Idle() []Box
}

// Box is a box without a machine.
type Box struct {
	agentbox.Box
	Detached bool   // its Branch is a commit
	Dir      string // of its files
	// Remove is Conflict if the box has a machine by now. It may wake the box, to keep what its
	// agents remember.
	Remove func(ctx context.Context, progress agentbox.Progress) error
}

// Templates are what boxes start from (place/local/templates.Templates).
type Templates interface {
	Unneeded(used map[string]bool) ([]string, error)
	Discard(key string) error
}

// Images are those of this machine (images.Images).
type Images interface {
	Unneeded() ([]image.Image, error)
	Forget(ctx context.Context, d agentbox.Digest) error
}

// Prune removes what nothing needs: templates that no box was made from, images that neither a box
// nor a recent build needs, audit logs of boxes that are long gone. On request it also removes
// boxes without a machine whose directory or branch is gone; they may hold work that exists nowhere
// else. With DryRun it only lists. It stops at the first item that cannot be removed. Boxes go
// first, so that what only they needed goes with them.
func (p Pruner) Prune(ctx context.Context, req api.PruneRequest, progress agentbox.Progress) (api.PruneResponse, error) {
	var out api.PruneResponse
	if err := p.Boxes.Unreadable(); err != nil {
		return out, err
	}
	for _, find := range []func(context.Context, agentbox.Progress) ([]prunable, error){p.boxes, p.templates, p.images, p.audits} {
		items, err := find(ctx, progress)
		if err != nil {
			return out, err
		}
		for _, item := range items {
			if item.Kind == boxKind && !req.Boxes {
				progress.Note(fmt.Sprintf("box %s stays: %s, but there may be work in it; `agentbox rm %s` asks, `agentbox prune --boxes` removes it all the same", item.Name, item.Reason, item.Name))
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

// boxKind is the kind of boxes in reports.
const boxKind = "box"

// auditRetention is for the log of a removed box: questions about what it did come late.
const auditRetention = 30 * 24 * time.Hour

// prunable is an item that nothing needs, with the function that removes it.
type prunable struct {
	api.PruneItem
	remove func() error
}

// audits are the logs of boxes that have been gone for auditRetention, counted from the last change
// of the directory.
func (p Pruner) audits(context.Context, agentbox.Progress) ([]prunable, error) {
	entries, err := os.ReadDir(p.Home.AuditLogs())
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var out []prunable
	for _, e := range entries {
		id, err := agentbox.ParseBoxID(e.Name())
		info, infoErr := os.Stat(filepath.Join(p.Home.AuditLogs(), e.Name()))
		if err != nil || infoErr != nil || p.Boxes.Known(id) || time.Since(info.ModTime()) < auditRetention {
			continue
		}
		dir := p.Home.Audit(id)
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "audit", Name: id.String(), Bytes: home.DiskUsage(dir), Reason: "its box has been gone for a month"},
			remove:    func() error { return os.RemoveAll(dir) },
		})
	}
	return out, nil
}

// boxes are those without a machine whose checkout, or its branch that they were made for, is gone.
func (p Pruner) boxes(ctx context.Context, progress agentbox.Progress) ([]prunable, error) {
	var out []prunable
	for _, b := range p.Boxes.Idle() {
		why := ""
		switch {
		case !b.Source.IsZero():
			continue // it does not need what it is from
		case workspace.IsDeleted(b.Directory):
			why = "its directory is gone"
		case b.Lifetime == agentbox.LifetimeBranch && branchGone(ctx, b):
			why = "its branch " + b.Branch + " is gone"
		default:
			continue
		}
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: boxKind, Name: b.Name, Bytes: home.DiskUsage(b.Dir), Reason: why},
			remove:    func() error { return b.Remove(ctx, progress) },
		})
	}
	return out, nil
}

// branchGone tells whether the branch of a box is gone from its checkout. If that cannot be found
// out, it is not. A box that began without a commit, or on a detached HEAD, has no branch to look
// for.
func branchGone(ctx context.Context, b Box) bool {
	repo, err := workspace.Describe(ctx, b.Directory)
	if err != nil || b.Commit == "" || b.Detached || repo.Branch == b.Branch {
		return false
	}
	exists, err := workspace.HasBranch(ctx, repo, b.Branch)
	return err == nil && !exists
}

// templates are those that neither a box nor a machine of the pool was made from.
func (p Pruner) templates(context.Context, agentbox.Progress) ([]prunable, error) {
	keys, err := p.Templates.Unneeded(p.Boxes.Templates())
	var out []prunable
	for _, key := range keys {
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "template", Name: place.ShortKey(key), Bytes: home.DiskUsage(p.Home.Template(key)), Reason: "no box is made from it"},
			remove:    func() error { return p.Templates.Discard(key) },
		})
	}
	return out, err
}

// images are those without a user for a week, see images.Unneeded.
func (p Pruner) images(ctx context.Context, _ agentbox.Progress) ([]prunable, error) {
	list, err := p.Images.Unneeded()
	var out []prunable
	for _, img := range list {
		out = append(out, prunable{
			PruneItem: api.PruneItem{Kind: "image", Name: img.Name, Bytes: home.DiskUsage(filepath.Dir(img.Path)), Reason: "no box uses it, and it is a week old"},
			remove:    func() error { return p.Images.Forget(ctx, img.Digest) },
		})
	}
	return out, err
}
