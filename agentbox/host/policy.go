package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
	"agentbox/agentbox/host/egress"
	"agentbox/agentbox/place"
)

// setApproved records the digest of the approved document that governs a box, "" for none. It does
// not wait for an operation under way, which may take minutes; commit keeps what it records.
func (b *box) setApproved(h home.Home, document string) error {
	set := func(rec *record) { rec.Approved, rec.approvals = document, rec.approvals+1 }
	if b.record().Approved == document {
		b.set(func(b *box) { set(&b.rec) })
		return nil
	}
	return b.change(h, set)
}

// policyBoxes implements egress.Boxes, so that egress need not know what else a box is.
type policyBoxes struct {
	boxes *table
	// applyPolicy applies the policy of a box to its machine.
	applyPolicy func(ctx context.Context, b *box) error
}

// Find implements egress.Boxes.
func (p policyBoxes) Find(ctx context.Context, ref api.BoxRef) (agentbox.BoxID, egress.Subject, error) {
	b, err := p.boxes.find(ctx, ref)
	if err != nil {
		return agentbox.BoxID{}, egress.Subject{}, err
	}
	rec := b.record()
	return rec.Box.ID, rec.subject(p.boxes.home), nil
}

// Running implements egress.Boxes.
func (p policyBoxes) Running() []egress.Box {
	var out []egress.Box
	for _, b := range p.boxes.all() {
		if rec := b.record(); rec.Phase != phasePool && rec.Phase != phaseRemoving && b.place() != nil {
			out = append(out, policyBox{b, p.boxes.home, p.applyPolicy})
		}
	}
	return out
}

// SetApproved implements egress.Boxes.
func (p policyBoxes) SetApproved(root, branch, document string) error {
	for _, b := range p.boxes.all() {
		if rec := b.record(); rec.Phase == phaseReady && rec.root(p.boxes.home) == root && rec.Box.Branch == branch {
			if err := b.setApproved(p.boxes.home, document); err != nil {
				return err
			}
		}
	}
	return nil
}

// policyBox is an egress.Box. Its methods see the box as it is when they are called.
type policyBox struct {
	b           *box
	home        home.Home
	applyPolicy func(ctx context.Context, b *box) error
}

func (p policyBox) Name() string                    { return p.b.record().Box.Name }
func (p policyBox) Subject() egress.Subject         { return p.b.record().subject(p.home) }
func (p policyBox) Apply(ctx context.Context) error { return p.applyPolicy(ctx, p.b) }
func (p policyBox) IsRunning() bool                 { return p.b.place() != nil }
func (p policyBox) Stop() error                     { return p.b.end() }

// AuditLogFailed implements egress.Box.
func (p policyBox) AuditLogFailed(ctx context.Context) bool {
	live := p.b.place()
	if live == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	st, err := live.Status(ctx, place.Question{})
	return err == nil && st.AuditLogFailed
}
