package host

import (
	"context"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Origin tells from which box of another machine what runs in a box came, by which move, and what the box
// is now. Conflict if it cannot go back; Unavailable if that machine does not know yet that it came.
func (ms Moves) Origin(ctx context.Context, id agentbox.BoxID) (from api.LiveMove, there string, l api.Live, err error) {
	b, err := ms.m.boxes.find(ctx, api.BoxRef{Box: id.String()})
	if err != nil {
		return from, "", l, err
	}
	rec := b.record()
	switch at := rec.Arrived; {
	case at == nil || rec.comesBack():
		err = agentbox.Errorf(agentbox.Conflict, "what runs in box %s did not come from another machine", rec.Box.Name)
	case at.Step != api.StepSettled:
		err = agentbox.Errorf(agentbox.Unavailable, "its machine does not know yet that box %s runs here", rec.Box.Name)
	default:
		from, there = at.LiveMove, at.ID
		l, err = ms.Show(ctx, id.String())
		l.ID = id.String()
	}
	return from, there, l, err
}

// ComeBack has what runs in another machine's box go on in the box here that has gone by g. move moves
// it (contexts.Move). Until it is here the box stays moved, with the files that it had. Conflict if it
// has gone on since, or would not be the same box.
func (ms Moves) ComeBack(ctx context.Context, id string, g api.LiveMove, l api.Live, move func(context.Context, *Arrival) error) error {
	if err := ms.Fits(ctx, l); err != nil {
		return err
	}
	b, err := ms.m.boxes.find(ctx, api.BoxRef{Box: id})
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := ms.expect(ctx, b, g, l); err != nil {
		return err
	}
	a := &Arrival{ms.m, b, nil, ""}
	if err = move(ctx, a); err != nil && a.Step() == api.StepNew {
		if gone := a.Drop(); gone != nil {
			return gone
		}
	}
	return agentbox.MarkNoSpace(err)
}

// expect gets a box ready for what comes back. The caller holds op.
func (ms Moves) expect(ctx context.Context, b *box, g api.LiveMove, l api.Live) (err error) {
	rec := b.record()
	is := rec.Box
	switch {
	case rec.Phase != phaseReady:
		return agentbox.Errorf(agentbox.Conflict, "box %s is gone", is.Name)
	case rec.comesBack():
		return agentbox.Errorf(agentbox.Conflict, "what ran in box %s is on its way back already", is.Name)
	case rec.MovedTo == nil || *rec.MovedTo != g:
		return agentbox.Errorf(agentbox.Conflict, "box %s has gone on there since", is.Name)
	case l.Isolation != is.Isolation || l.CPUs != is.CPUs || l.Memory != is.Memory || l.Disk != is.Disk || l.Image != is.Image:
		return agentbox.Errorf(agentbox.Conflict, "the two boxes have another image or size by now")
	}
	rec.NoTemplate = false
	if rec.Box.Template, err = ms.m.disk.key(ctx, rec, nil); err != nil {
		return err
	}
	if err := ms.m.disk.checkRestorable(ctx, rec); err != nil {
		return err
	}
	if err := ms.m.disk.dropArrival(rec); err != nil { // what was saved here has run there
		return err
	}
	rec.Arrived = &arrived{LiveMove: api.LiveMove{Peer: l.Peer}, ID: l.ID, Back: &movedBefore{*rec.MovedTo, rec.PausedFor, rec.Workspace}}
	return b.commit(ms.m.home, rec)
}

// giveUp has what comes back to a box stay where it ran, if it is not the box's yet: its user lets the box
// go on otherwise. The caller holds op.
func giveUp(m *Manager, b *box) error {
	if rec := b.record(); !rec.comesBack() || rec.Arrived.Step != api.StepAsked {
		return nil
	}
	return (&Arrival{m, b, nil, ""}).Record(api.StepLeaving)
}

// waitsForWord is the error about a box that cannot be removed before another machine has heard of it.
func waitsForWord(rec record) error {
	return agentbox.Errorf(agentbox.Conflict, "what ran in box %s is on its way back from %s, which has not said whether it let go of it", rec.Box.Name, rec.Arrived.Back.PausedFor).
		WithHint("agentbox reset %s leaves it there and begins afresh; the box can be removed once both machines know that", rec.Box.Name)
}
