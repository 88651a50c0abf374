package local

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/home"
	"agentbox/agentbox/place"
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/supervisors"
	"agentbox/vmm"
)

// running implements place.Place and the abilities that all kinds have, by calls to a supervisor. What
// is missing here is promoted.
type running struct {
	*supervisors.Supervisor
	kind   kind
	id     agentbox.BoxID
	parked atomic.Bool // Park was called, and Start not since
}

// Start implements place.Place.
func (r *running) Start(ctx context.Context, as *place.Identity) error {
	if as != nil && r.parked.Swap(false) {
		_, err := supervisors.Ask(ctx, r.Supervisor, control.Configure, *as)
		return err
	}
	_, err := supervisors.Ask(ctx, r.Supervisor, control.Start, control.StartRequest{Guest: as})
	return err
}

// Session implements place.Place.
func (r *running) Session(ctx context.Context, user string) (place.Session, error) {
	names := r.Box
	a := environment.Address{Name: r.id.String(), Socket: names.SSH(), Key: names.Key(), KnownHosts: names.KnownHosts()}
	client, err := environment.Open(ctx, a, user)
	if err != nil {
		return nil, r.Explain(ctx, err)
	}
	return place.Over(client), nil
}

// Done implements place.Place.
func (r *running) Done() <-chan struct{} { return r.Supervisor.Done }

// End implements place.Place.
func (r *running) End() (agentbox.End, bool) {
	exit, known, err := r.Exit()
	if err != nil {
		r.kind.Log.Warn("cannot read why a supervisor ended", "box", r.id, "error", err)
	}
	return exit.End, known
}

// Renew implements place.Leaser.
func (r *running) Renew(ctx context.Context, term time.Duration) error {
	_, err := supervisors.Ask(ctx, r.Supervisor, control.Lease, control.LeaseRequest{Term: term})
	return err
}

// Park implements place.Parker.
func (r *running) Park(ctx context.Context) error {
	_, err := supervisors.Ask(ctx, r.Supervisor, control.Park, api.None{})
	r.parked.Store(err == nil)
	return err
}

// savable is a place of a kind that saves what runs.
type savable struct{ *running }

// freezable is a place of one that does not.
type freezable struct{ *running }

func (k kind) place(s *supervisors.Supervisor, id agentbox.BoxID) place.Place {
	r := &running{Supervisor: s, kind: k, id: id}
	if _, ok := k.driver.(vmm.Snapshotter); ok {
		return savable{r}
	}
	return freezable{r}
}

// Halt implements place.Halter.
func (r *running) Halt(ctx context.Context, halted bool) error {
	_, err := supervisors.Ask(ctx, r.Supervisor, control.Freeze, control.FreezeRequest{Frozen: halted})
	return err
}

// Pause implements place.Saver. The supervisor completes the save by one rename before it ends the
// machine, so a crash leaves either the machine or the save.
func (s savable) Pause(ctx context.Context) error {
	if _, err := supervisors.Ask(ctx, s.Supervisor, control.Pause, control.SaveRequest{Dir: s.Box.Saved()}); err != nil {
		return agentbox.MarkNoSpace(err)
	}
	<-s.Supervisor.Done
	return nil
}

// Checkpoint implements place.Saver.
func (s savable) Checkpoint(ctx context.Context, name string) (int64, error) {
	dir := s.kind.checkpoint(s.id, name)
	// The supervisor makes dir itself, by a rename when the save is complete.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return 0, agentbox.MarkNoSpace(err)
	}
	if _, err := supervisors.Ask(ctx, s.Supervisor, control.Save, control.SaveRequest{Dir: dir}); err != nil {
		return 0, agentbox.MarkNoSpace(err)
	}
	return home.DiskUsage(dir), nil
}

// Freeze implements place.Freezer.
func (f freezable) Freeze(ctx context.Context) error { return f.Halt(ctx, true) }

// Thaw implements place.Freezer.
func (f freezable) Thaw(ctx context.Context) error { return f.Halt(ctx, false) }

// Fork implements place.Saver.
func (s savable) Fork(ctx context.Context, child agentbox.BoxID) error {
	dir := s.kind.Home.Box(child).Saved()
	_, err := supervisors.Ask(ctx, s.Supervisor, control.Save, control.SaveRequest{Dir: dir, Fork: true})
	return err
}
