package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/place"
)

// Moves gives boxes to other machines with what runs in them (contexts.LiveBoxes).
type Moves struct{ m *Manager }

// MovesOf returns the moves of the boxes of m.
func MovesOf(m *Manager) Moves { return Moves{m} }

// movedAway is the error about a box whose processes are another machine's.
func movedAway(rec record) error {
	return agentbox.Errorf(agentbox.Conflict, "what ran in box %s runs on %s now", rec.Box.Name, rec.PausedFor).
		WithHint("agentbox reset %s begins afresh with the files that it had here", rec.Box.Name)
}

// mover is the kind of a box if what runs in it can move.
func (d disk) mover(rec record) (place.Mover, error) {
	kind, err := d.kind(rec)
	if err != nil {
		return nil, err
	}
	m, ok := kind.(place.Mover)
	switch {
	case !ok:
		return nil, agentbox.Errorf(agentbox.Conflict, "%s isolation moves no processes", rec.Box.Isolation)
	case rec.Task, rec.Foreign:
		return nil, agentbox.Errorf(agentbox.Conflict, "a task's command runs in it, which its machine waits for")
	case rec.MovedTo != nil:
		return nil, movedAway(rec)
	case rec.Arrived != nil && rec.Arrived.Back != nil:
		return nil, agentbox.Errorf(agentbox.Conflict, "the machine from which it came back has not heard of that yet")
	}
	return m, nil
}

// Show says what a box is, for a machine that would have it. Conflict if it cannot move.
func (ms Moves) Show(ctx context.Context, id string) (l api.Live, err error) {
	b, err := ms.m.boxes.find(ctx, api.BoxRef{Box: id})
	if err != nil {
		return l, err
	}
	rec := b.record()
	mover, err := ms.m.disk.mover(rec)
	if err != nil {
		return l, err
	}
	if b.state(ms.m.disk) == agentbox.Stopped {
		return l, agentbox.Errorf(agentbox.Conflict, "nothing runs in it")
	}
	l = api.Live{Isolation: rec.Box.Isolation, CPUs: rec.Box.CPUs, Memory: rec.Box.Memory, Disk: rec.Box.Disk, Image: rec.Box.Image}
	l.Basis, err = mover.Basis(ctx, rec.spec())
	return l, err
}

// Fits tells why what runs in another machine's box cannot go on here: Conflict.
func (ms Moves) Fits(ctx context.Context, l api.Live) error {
	kind, err := ms.m.kind(l.Isolation)
	if err != nil {
		return err
	}
	mover, ok := kind.(place.Mover)
	if !ok {
		return agentbox.Errorf(agentbox.Conflict, "%s isolation moves no processes", l.Isolation)
	}
	if err := ms.hasSize(l); err != nil {
		return err
	}
	rec := record{}
	rec.arriveAs(&l)
	here, err := mover.Basis(ctx, rec.spec())
	if err != nil {
		return err
	}
	for name, d := range here {
		if l.Basis[name] != d {
			return agentbox.Errorf(agentbox.Conflict, "the two machines do not have the same %s", name)
		}
	}
	return nil
}

// hasSize tells why a box of another machine is too large for this one, or makes no sense.
func (ms Moves) hasSize(l api.Live) error {
	have, err := ms.m.Capacity.Report()
	switch {
	case err != nil:
		return err
	case l.CPUs < agentbox.MinCPUs || l.CPUs > agentbox.MaxCPUs || l.Memory < agentbox.MinMemory || l.Disk < agentbox.MinDisk || l.Disk > agentbox.MaxDisk:
		return agentbox.Errorf(agentbox.Conflict, "no box can have %d CPUs, %d bytes of memory and %d of disk", l.CPUs, l.Memory, l.Disk)
	case l.Memory > have.Machine.Memory:
		return agentbox.Errorf(agentbox.Conflict, "the box has more memory than this machine")
	}
	return nil
}

// MovingBox is a paused box whose op this move has.
type MovingBox struct {
	m   *Manager
	b   *box
	ran bool // it ran before
}

// Pause pauses a box and keeps its op until it is released.
func (ms Moves) Pause(ctx context.Context, id string) (*MovingBox, error) {
	b, err := ms.m.boxes.find(ctx, api.BoxRef{Box: id})
	if err != nil {
		return nil, err
	}
	b.op.Lock()
	mb := &MovingBox{ms.m, b, b.state(ms.m.disk) == agentbox.Running}
	rec := b.record()
	_, err = ms.m.disk.mover(rec)
	if err == nil && rec.Phase != phaseReady {
		err = agentbox.Errorf(agentbox.NotFound, "box %s was removed", id)
	}
	if err == nil && mb.ran {
		err = pause(ctx, ms.m, b, nil)
	} else if err == nil && b.state(ms.m.disk) != agentbox.Paused {
		err = agentbox.Errorf(agentbox.Conflict, "nothing runs in it")
	}
	if err != nil {
		mb.Release()
		return nil, err
	}
	return mb, nil
}

// Relies is what programs in the box rely on: the seed of its placeholders, and the authority that they
// trust, if it has one.
func (mb *MovingBox) Relies() (seed string, authority []byte, err error) {
	rec := mb.b.record()
	authority, err = os.ReadFile(rec.names(mb.m.home).Authority())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return rec.Seed, authority, err
}

// Send writes all of the box (place.Mover).
func (mb *MovingBox) Send(ctx context.Context, to io.ReadWriter) error {
	rec := mb.b.record()
	mover, err := mb.m.disk.mover(rec)
	if err != nil {
		return err
	}
	return mover.Send(ctx, rec.spec(), to)
}

// HandOver records that the box is another machine's.
func (mb *MovingBox) HandOver(g api.LiveMove, machine string) error {
	rec := mb.b.record()
	rec.MovedTo, rec.MovedRunning, rec.PausedFor = &g, mb.ran, machine
	return mb.b.commit(mb.m.home, rec)
}

// GoOn lets the box run again, if it did.
func (mb *MovingBox) GoOn() error {
	if !mb.ran || mb.m.ctx.Err() != nil {
		return nil
	}
	return mb.m.resume(mb.m.ctx, mb.b, nil)
}

// Release lets others have the box.
func (mb *MovingBox) Release() { mb.b.op.Unlock() }

// MovedTo tells by which move a box has gone; false for none.
func (ms Moves) MovedTo(ctx context.Context, id string) (g api.LiveMove, ok bool) {
	b, err := ms.m.boxes.find(ctx, api.BoxRef{Box: id})
	if err != nil || b.record().MovedTo == nil {
		return g, false
	}
	return *b.record().MovedTo, true
}

// Runs drops what was saved of a box that runs on another machine now.
func (ms Moves) Runs(ctx context.Context, id string, g api.LiveMove) error {
	return ms.ofMove(ctx, id, g, func(b *box) error { return ms.m.disk.dropKept(b.record(), true) })
}

// TakeBack records that a box is this machine's again, and lets it go on if it ran.
func (ms Moves) TakeBack(ctx context.Context, id string, g api.LiveMove) error {
	return ms.ofMove(ctx, id, g, func(b *box) error {
		rec := b.record()
		ran := rec.MovedRunning
		rec.MovedTo, rec.MovedRunning, rec.PausedFor = nil, false, ""
		if err := b.commit(ms.m.home, rec); err != nil || !ran {
			return err
		}
		return ms.m.resume(ms.m.ctx, b, nil)
	})
}

// ofMove does something with a box that has gone by g, and nothing with others.
func (ms Moves) ofMove(ctx context.Context, id string, g api.LiveMove, do func(*box) error) error {
	b, err := ms.m.boxes.find(ctx, api.BoxRef{Box: id})
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if rec := b.record(); rec.MovedTo == nil || *rec.MovedTo != g || rec.comesBack() { // by who ran it
		return nil
	}
	return do(b)
}
