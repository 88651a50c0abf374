package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/place"
)

// arrived is the part of a record about the machine that a box comes from with what runs in it.
// While its Step waits, a new box is in phaseMoving.
type arrived struct {
	api.LiveMove          // the machine that had it, and the token of the move
	ID           string   `json:"id"` // of the box there
	Step         api.Step `json:"step,omitempty"`
	// Back is set while what moved comes back to a box. That counts as moved until it is its own again,
	// with the workspace that it had.
	Back *movedBefore `json:"back,omitempty"`
}

// movedBefore is what a record says of a box that has moved.
type movedBefore struct {
	MovedTo   api.LiveMove `json:"given"`
	PausedFor string       `json:"taken"`
	Workspace int          `json:"workspace"`
}

// comesBack tells whether what runs elsewhere comes back to the box and is not its own yet.
func (r record) comesBack() bool {
	return r.Arrived != nil && r.Arrived.Back != nil && r.MovedTo != nil
}

// arriving is the record once what comes is the box's: what comes back has a workspace and a life beside
// those of before.
func (r record) arriving() record {
	if r.comesBack() {
		r.MovedTo, r.PausedFor = nil, ""
		r.Life, r.Workspace = r.Life+1, r.Arrived.Back.Workspace+1
	}
	return r
}

// arriveAs makes the record that of a box in which what runs in another one goes on: it has had its
// setup and start.
func (r *record) arriveAs(l *api.Live) {
	r.Box.Isolation, r.Box.CPUs, r.Box.Memory, r.Box.Disk, r.Box.GPUs, r.Box.Image = l.Isolation, l.CPUs, l.Memory, l.Disk, 0, l.Image
	r.StartDue, r.NoTemplate = false, false
	r.Arrived = &arrived{LiveMove: api.LiveMove{Peer: l.Peer}, ID: l.ID}
}

// MoveHere is Up for a new box that goes on with what runs in another machine's. move moves it
// (contexts.Move) after everything else that the box needs is here.
func (ms Moves) MoveHere(ctx context.Context, req api.MoveRequest, move func(context.Context, *Arrival) error, progress agentbox.Progress) (api.UpResponse, error) {
	if err := ms.Fits(ctx, req.Live); err != nil {
		return api.UpResponse{}, err
	}
	if req.Pins == nil || req.Pins.Image != req.Live.Image {
		return api.UpResponse{}, agentbox.Errorf(agentbox.Conflict, "the image of that box is not here")
	}
	req.Isolation = req.Live.Isolation
	return up(ctx, ms.m, req.UpRequest, &req.Live, move, progress)
}

// Arrival is a box that comes from another machine with what runs in it (contexts.Arrival). Its op is
// held, by Alone or who makes it.
type Arrival struct {
	m        *Manager
	b        *box
	progress agentbox.Progress
	like     string // a directory in which much of its workspace is
}

// arrive has a new box moved here. It is removed after an error, unless it may be this machine's.
func arrive(ctx context.Context, m *Manager, u *creation, progress agentbox.Progress) error {
	err := m.disk.checkRestorable(ctx, u.b.record())
	if err == nil {
		end := progress.Begin("move", "memory, processes and files")
		if err = u.move(ctx, &Arrival{m, u.b, progress, u.from.Repo().Root}); err == nil {
			end("")
		}
	}
	if rec := u.b.record(); err != nil && rec.Phase == phaseNew {
		err = errors.Join(agentbox.MarkNoSpace(err), m.maker.removeLocked(u.b))
	}
	return err
}

// Box is the box here.
func (a *Arrival) Box() agentbox.BoxID { return a.b.record().Box.ID }

// From is the machine that has the box, its ID there, and the token of the move.
func (a *Arrival) From() (peer, id, token string) {
	r := a.b.record().Arrived
	return r.Peer, r.ID, r.Token
}

// Step is how far it has come.
func (a *Arrival) Step() api.Step {
	if r := a.b.record().Arrived; r != nil {
		return r.Step
	}
	return api.StepSettled
}

// Begin gives the move a token.
func (a *Arrival) Begin(token string) error {
	rec := a.b.record()
	now := *rec.Arrived
	now.Token, rec.Arrived = token, &now
	return a.b.commit(a.m.home, rec)
}

// Record makes a step durable.
func (a *Arrival) Record(step api.Step) error {
	rec := a.b.record()
	now := *rec.Arrived
	now.Step, rec.Arrived = step, &now
	switch back := now.Back; {
	case back == nil && step.Waits():
		rec.Phase = phaseMoving
	case back == nil:
		rec.Phase = phaseReady
	case step == api.StepLeaving && rec.MovedTo == nil: // it was its own for a moment
		rec.MovedTo, rec.PausedFor, rec.Workspace = &back.MovedTo, back.PausedFor, back.Workspace
	case step == api.StepMine:
		rec = rec.arriving()
	}
	if step == api.StepSettled {
		now.Back = nil
	}
	if err := a.b.commit(a.m.home, rec); err != nil || now.Back == nil || step != api.StepLeaving {
		return err
	}
	return a.m.disk.dropArrival(rec)
}

// dropArrival drops what came of a box that was to come back, which stays moved.
func (d disk) dropArrival(rec record) error {
	return errors.Join(d.dropKept(rec, true), d.sweep(rec, true))
}

// Receive writes what was saved of the box, and what programs in it rely on: of a box that comes back they
// rely on what they have had from here.
func (a *Arrival) Receive(ctx context.Context, seed string, authority []byte, from io.ReadWriteCloser) error {
	rec := a.b.record()
	kind, err := a.m.disk.kind(rec)
	if err != nil {
		return err
	}
	mover, ok := kind.(place.Mover)
	if !ok {
		return agentbox.Errorf(agentbox.Internal, "%s isolation moves no processes", rec.Box.Isolation)
	}
	if err := mover.Receive(ctx, rec.arriving().spec(), a.like, from); err != nil {
		return err
	}
	at := rec.names(a.m.home).Authority()
	if _, err := os.Stat(at); len(authority) > 0 && errors.Is(err, fs.ErrNotExist) {
		if err := durable.WriteFile(at, authority, 0o600); err != nil {
			return err
		}
	}
	if rec.comesBack() {
		return nil
	}
	rec.Seed = seed
	return a.b.commit(a.m.home, rec)
}

// Run lets it run, as a paused box.
func (a *Arrival) Run(ctx context.Context) error {
	err := a.m.machines.resume(ctx, a.b, a.progress)
	if err == nil {
		reportPorts(ctx, a.b, a.progress)
		_ = a.m.disk.sweep(a.b.record(), false) // the workspace of before; the next daemon repeats it
	}
	return err
}

// Ran tells whether it may have run here.
func (a *Arrival) Ran() bool {
	kept, err := a.m.disk.kept(a.b.record())
	return err == nil && kept != place.Whole
}

// Drop removes it, or what came of a box that was to come back. One that leaves was dropped when that was
// recorded, and may have begun afresh since.
func (a *Arrival) Drop() error {
	rec := a.b.record()
	if rec.Arrived == nil || rec.Arrived.Back == nil {
		return a.m.maker.removeLocked(a.b)
	}
	step := rec.Arrived.Step
	rec.Arrived = nil
	if step != api.StepLeaving {
		if err := a.m.disk.dropArrival(rec); err != nil {
			return err
		}
	}
	return a.b.commit(a.m.home, rec)
}

// Arrivals are the boxes about which there is something left to say to the machine that they come from.
func (ms Moves) Arrivals() (all []*Arrival) {
	for _, b := range ms.m.boxes.all() {
		a := &Arrival{ms.m, b, nil, ""}
		if a.open() {
			all = append(all, a)
		}
	}
	return all
}

func (a *Arrival) open() bool {
	rec := a.b.record()
	return rec.Arrived != nil && rec.Arrived.Step != api.StepNew && rec.Arrived.Step != api.StepSettled && (rec.Phase == phaseReady || rec.Phase == phaseMoving)
}

// Alone calls do while no operation is under way on the box, unless one is now.
func (a *Arrival) Alone(do func() error) error {
	if !a.b.op.TryLock() {
		return nil
	}
	defer a.b.op.Unlock()
	if !a.open() {
		return nil
	}
	return do()
}
