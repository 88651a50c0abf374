package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/identity"
)

// Entered finds a box that was entered from another machine, and tells of what it is: the box of the
// directory if none is named, else the only one.
func (o Origins) Entered(ctx context.Context, ref api.BoxRef) (agentbox.Box, api.Entered, error) {
	b, err := o.m.boxes.find(ctx, ref)
	if ref.Box == "" && (err != nil || b.record().Entered == nil) {
		var found []*box
		for _, one := range o.m.boxes.all() {
			if rec := one.record(); rec.Phase == phaseReady && rec.Entered != nil {
				found = append(found, one)
			}
		}
		if len(found) == 0 {
			return agentbox.Box{}, api.Entered{}, agentbox.Errorf(agentbox.NotFound, "no box here was entered from another machine").WithHint("agentbox ls --team lists what others work on, agentbox enter MACHINE/NAME enters it")
		}
		if len(found) > 1 {
			return agentbox.Box{}, api.Entered{}, agentbox.Errorf(agentbox.Conflict, "%d boxes here were entered from other machines", len(found)).WithHint("name one: agentbox push %s", found[0].record().Box.Name)
		}
		b, err = found[0], nil
	}
	if err != nil {
		return agentbox.Box{}, api.Entered{}, err
	}
	rec := b.record()
	if rec.Entered == nil {
		return rec.Box, api.Entered{}, agentbox.Errorf(agentbox.Invalid, "box %s was not entered from another machine", rec.Box.Name).WithHint("agentbox pull %s brings its work into a checkout", rec.Box.Name)
	}
	return rec.Box, *rec.Entered, nil
}

// WentBack records what a box builds on, since its work went back.
func (o Origins) WentBack(ctx context.Context, box agentbox.BoxID, d identity.Document) error {
	b, err := o.m.boxes.find(ctx, api.BoxRef{Box: box.String()})
	if err != nil {
		return err
	}
	return b.change(o.m.home, func(rec *record) {
		if rec.Entered != nil {
			now := *rec.Entered
			now.Identity = d
			rec.Entered = &now
		}
	})
}

// PauseFor pauses a box for another machine, which works on a copy of it.
func PauseFor(ctx context.Context, m *Manager, ref api.BoxRef, machine string) error {
	b, err := m.boxes.find(ctx, ref)
	if err != nil {
		return err
	}
	if _, err := m.Pause(ctx, api.BoxRef{Box: b.record().Box.ID.String()}, nil); err != nil {
		return err
	}
	return b.change(m.home, func(rec *record) { rec.PausedFor = machine })
}
