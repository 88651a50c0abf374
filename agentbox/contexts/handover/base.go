package handover

import (
	"context"
	"slices"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/contexts"
	"agentbox/agentbox/host"
	"agentbox/agentbox/identity"
	"agentbox/agentbox/snapshot"
)

// subjects are what others could enter: the boxes and tasks of this user.
func (h *Handover) subjects(ctx context.Context) (all []contexts.Subject, err error) {
	boxes, err := h.Boxes.List(ctx, api.ListRequest{}, nil)
	for _, b := range slices.Backward(boxes) { // the newest first
		if !h.isOfOthers(b) {
			all = append(all, contexts.Subject{ID: b.ID.String(), Project: b.Project})
		}
	}
	open := h.Queue.Open()
	for _, t := range slices.Concat(open, h.shared(open)) {
		if t.For == nil && t.Where == "" && t.Last() != nil {
			all = append(all, contexts.Subject{ID: t.ID.String(), Project: t.Project})
		}
	}
	return all, err
}

// baseOf says what a box or task began with. Nothing is captured.
func (h *Handover) baseOf(ctx context.Context, of contexts.Subject) (b contexts.Base, err error) {
	d, err := h.madeOf(ctx, of.ID)
	b = contexts.Base{ID: of.ID, Project: of.Project, Commit: d.Commit, Image: d.Image}
	if s := d.Setup; s != nil && !s.Result.IsZero() {
		b.Key, b.Result = s.Key, s.Result
	}
	return b, err
}

// historyOf makes a pack of the commit that a box or task began with.
func (h *Handover) historyOf(ctx context.Context, of contexts.Subject, there []string) (agentbox.Digest, error) {
	made, err := h.madeOf(ctx, of.ID)
	if err != nil {
		return agentbox.Digest{}, err
	}
	d, _, lacks, err := h.base(ctx, of.Project, made.Commit)
	if err == nil && lacks {
		err = agentbox.Errorf(agentbox.NotFound, "its commit is not here yet")
	}
	if err != nil {
		return agentbox.Digest{}, err
	}
	return h.Snapshots.HistoryOf(ctx, d, there)
}

// base describes a commit of a project and tells whether its mirror lacks it, and so do the checkouts of
// boxes here.
func (h *Handover) base(ctx context.Context, projectName, commit string) (doc snapshot.Document, mirror string, lacks bool, err error) {
	if doc, err = snapshot.Unchanged(projectName, commit); err != nil {
		return doc, "", false, err
	}
	mirror = h.Snapshots.Mirror(projectName)
	if _, lacks, err = doc.Lacks(ctx, mirror); err != nil || !lacks {
		return doc, mirror, lacks, err
	}
	boxes, err := h.Boxes.List(ctx, api.ListRequest{}, nil)
	for _, b := range boxes {
		if lacks && err == nil && b.Project == projectName && b.Directory != "" {
			lacks, err = doc.TakeBase(ctx, mirror, b.Directory)
		}
	}
	return doc, mirror, lacks, err
}

// madeOf is what a box, or the box of a task, is made of, as this machine knows it without looking into it.
func (h *Handover) madeOf(ctx context.Context, id string) (identity.Document, error) {
	s, err := h.lookUp(ctx, api.BoxRef{Box: id})
	if err != nil {
		return identity.Document{}, err
	}
	if s.task == nil {
		return host.OriginsOf(h.Boxes).Identity(ctx, api.BoxRef{Box: s.ID})
	}
	if last := s.task.Last(); last != nil && last.Result == nil {
		return host.OriginsOf(h.Boxes).Identity(ctx, api.BoxRef{Box: last.BoxName})
	}
	return h.ofAttempt(*s.task)
}
