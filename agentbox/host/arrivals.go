package host

import (
	"context"
	"errors"
	"io"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/place"
)

// arrived is the part of a record about the machine that a box comes from with what runs in it. Step
// is a contexts.Step; with one before its last the box is in phaseMoving.
type arrived struct {
	api.Given        // the machine that had it, and the token of the move
	ID        string `json:"id"` // of the box there
	Step      string `json:"step,omitempty"`
}

// arriveAs makes the record that of a box in which what runs in another one goes on: it has had its
// setup and start.
func (r *record) arriveAs(l *api.Live) {
	r.Box.Isolation, r.Box.CPUs, r.Box.Memory, r.Box.Disk, r.Box.GPUs, r.Box.Image = l.Isolation, l.CPUs, l.Memory, l.Disk, 0, l.Image
	r.StartDue, r.Cold = false, false
	r.Arrived = &arrived{Given: api.Given{Peer: l.Peer}, ID: l.ID}
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
}

// arrive has a new box moved here. It is removed after an error, unless it may be this machine's.
func arrive(ctx context.Context, m *Manager, u *creation, progress agentbox.Progress) error {
	err := m.disk.checkRestorable(ctx, u.b.record())
	if err == nil {
		end := progress.Begin("move", "memory, processes and files")
		if err = u.move(ctx, &Arrival{m, u.b, progress}); err == nil {
			end("")
		}
	}
	if rec := u.b.record(); err != nil && rec.Phase == phaseNew {
		err = errors.Join(agentbox.MarkNoSpace(err), m.maker.removeLocked(u.b))
	}
	return err
}

// From is the machine that has the box, its ID there, and the token of the move.
func (a *Arrival) From() (peer, id, token string) {
	r := a.b.record().Arrived
	return r.Peer, r.ID, r.Token
}

// Step is how far it has come.
func (a *Arrival) Step() string {
	if r := a.b.record().Arrived; r != nil {
		return r.Step
	}
	return "settled"
}

// Begin gives the move a token.
func (a *Arrival) Begin(token string) error {
	rec := a.b.record()
	now := *rec.Arrived
	now.Token, rec.Arrived = token, &now
	return a.b.commit(a.m.home, rec)
}

// Record makes a step durable: one that waits for a word of the other machine, or mine, or the last one.
func (a *Arrival) Record(step string, waits, last bool) error {
	rec := a.b.record()
	now := *rec.Arrived
	now.Step, rec.Arrived, rec.Phase = step, &now, phaseReady
	if waits {
		rec.Phase = phaseMoving
	}
	if last {
		rec.Arrived = nil
	}
	return a.b.commit(a.m.home, rec)
}

// Receive writes what was saved of the box, and what programs in it rely on.
func (a *Arrival) Receive(ctx context.Context, seed string, authority []byte, r io.Reader) error {
	rec := a.b.record()
	kind, err := a.m.disk.kind(rec)
	if err != nil {
		return err
	}
	mover, ok := kind.(place.Mover)
	if !ok {
		return agentbox.Errorf(agentbox.Internal, "%s isolation moves no processes", rec.Box.Isolation)
	}
	if err := mover.Receive(ctx, rec.spec(), r); err != nil {
		return err
	}
	if len(authority) > 0 {
		if err := durable.WriteFile(rec.names(a.m.home).Authority(), authority, 0o600); err != nil {
			return err
		}
	}
	rec.Seed = seed
	return a.b.commit(a.m.home, rec)
}

// Run lets it run, as a paused box.
func (a *Arrival) Run(ctx context.Context) error {
	err := a.m.machines.resume(ctx, a.b, a.progress)
	if err == nil {
		reportPorts(ctx, a.b, a.progress)
	}
	return err
}

// Ran tells whether it may have run here.
func (a *Arrival) Ran() bool {
	kept, err := a.m.disk.kept(a.b.record())
	return err == nil && kept != place.Whole
}

// Drop removes it.
func (a *Arrival) Drop() error { return a.m.maker.removeLocked(a.b) }

// Arrivals are the boxes about which there is something left to say to the machine that they come from.
func (ms Moves) Arrivals() (all []*Arrival) {
	for _, b := range ms.m.boxes.all() {
		a := &Arrival{ms.m, b, nil}
		if a.open() {
			all = append(all, a)
		}
	}
	return all
}

func (a *Arrival) open() bool {
	rec := a.b.record()
	return rec.Arrived != nil && rec.Arrived.Step != "" && (rec.Phase == phaseReady || rec.Phase == phaseMoving)
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
