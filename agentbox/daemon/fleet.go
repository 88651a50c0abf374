package daemon

import (
	"cmp"
	"context"
	"io"
	"net"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/host"
	"agentbox/agentbox/idle"
	"agentbox/agentbox/job"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/task"
	"agentbox/agentbox/team"
	"agentbox/mesh"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// fleetTeam is the mesh as workers see it (fleet.Team).
type fleetTeam struct {
	mesh *mesh.Mesh // nil without one
	team *team.Team
}

func (f fleetTeam) Offers() map[identity.PeerID][]catalogue.Record {
	return f.team.OffersOfOthers()
}

// Name is a member's name, or its ID if it is none.
func (f fleetTeam) Name(id identity.PeerID) string {
	if m := f.mesh; m != nil {
		if member, err := m.Find(id.String()); err == nil {
			return cmp.Or(member.Name, id.Short())
		}
	}
	return id.Short()
}

// member is the name of one that is known by its ID as text; any other text stays.
func (f fleetTeam) member(id string) string {
	if peer, err := identity.ParsePeer(id); err == nil {
		return f.Name(peer)
	}
	return id
}

func (f fleetTeam) Self() identity.PeerID {
	if m := f.mesh; m != nil {
		return m.Self()
	}
	return identity.PeerID{}
}

func (f fleetTeam) Dial(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
	return f.dial(ctx, peer, fleet.Service)
}

func (f fleetTeam) dial(ctx context.Context, peer identity.PeerID, service wire.Service) (*wire.Conn, error) {
	if m := f.mesh; m != nil {
		if node := m.Node(); node != nil {
			return node.Dial(ctx, peer, service)
		}
	}
	return nil, agentbox.Errorf(agentbox.Unavailable, "this machine is in no team now")
}

// fleetLocal is this machine as a worker sees it (fleet.Local).
type fleetLocal struct {
	ctx       context.Context // ends with the daemon
	boxes     *host.Manager
	queue     *task.Queue
	tasks     tasks
	work      taskWork
	saves     saves
	sources   sources
	idle      func() idle.Keeper
	team      fleetTeam
	elsewhere *elsewhere
}

func (f fleetLocal) Idle(ctx context.Context) (fleet.Readiness, error) {
	s, err := f.idle().Status(ctx)
	r := fleet.Readiness{Against: s.Against, Ends: idle.Ends(s.Policy, s.Facts), Serves: func(owner string) bool { return idle.Serves(s.Policy, owner) }}
	r.Machine = fleet.Machine{Labels: s.Policy.Labels, Against: r.Ends}
	if m, measureErr := f.boxes.Capacity.Measure(); measureErr == nil {
		r.Machine.CPUs, r.Machine.Memory = m.CPUs, m.Most()
	}
	return r, err
}

// Keeps is so for the team's builders, which are always on.
func (f fleetLocal) Keeps() bool {
	m := f.team.mesh
	return m != nil && m.IsBuilder(m.Self())
}

func (f fleetLocal) Fits(need resources.Share) bool { return f.boxes.Capacity.HasRoom(nil, need) }

func (f fleetLocal) Missing(manifest io.Reader) ([]agentbox.Digest, error) {
	return f.sources.Missing(manifest)
}

func (f fleetLocal) Import(ctx context.Context, r io.Reader) (agentbox.Digest, func(), error) {
	c, release, err := f.sources.Import(ctx, r)
	return c.Digest(), release, err
}

func (f fleetLocal) Submit(ctx context.Context, spec agentbox.TaskSpec) (agentbox.Task, error) {
	all, err := f.tasks.submit(ctx, api.TaskSubmission{Spec: spec, Commands: [][]string{spec.Command}}, nil)
	if err != nil {
		return agentbox.Task{}, err
	}
	return all[0], nil
}

func (f fleetLocal) Tasks() []agentbox.Task { return tasksOfOthers(f.queue.Store) }

func (f fleetLocal) Cancel(id agentbox.TaskID) error { return f.queue.Cancel(id) }

// Remove removes a task when its box is gone.
func (f fleetLocal) Remove(id agentbox.TaskID) error {
	if _, err := f.queue.Wait(f.ctx, id); err != nil {
		return err
	}
	return f.queue.Remove(id)
}

// Written copies the transcript of the last attempt: its job's while that runs, later the kept one.
func (f fleetLocal) Written(ctx context.Context, t agentbox.Task, w io.Writer) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	if last.Result != nil || t.Where != "" {
		kept, err := f.queue.Store.Transcript(t.ID, last.Number)
		if err != nil {
			return err
		}
		defer kept.Close()
		_, err = io.Copy(w, kept)
		return err
	}
	j, err := f.queue.Jobs.Show(ctx, last.BoxName, last.Job)
	if err != nil {
		return err
	}
	return job.OpenTranscript(j.Dir).WriteCast(ctx, w)
}

// Pack writes the work of a task, nothing if it did none.
func (f fleetLocal) Pack(ctx context.Context, t agentbox.Task, w io.Writer) error {
	ref := api.BoxRef{Box: t.ID.String()}
	kept, err := f.work.find(ctx, &ref)
	if err != nil || kept == nil {
		return nil // the result says what there is
	}
	return snapshot.Send(ctx, *kept, w)
}

// Save takes a snapshot of a task's box, and replaces the last one. Of a task that is only kept here it
// is the last one.
func (f fleetLocal) Save(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	if t.Where != "" {
		return f.Saved(ctx, t)
	}
	if _, err := f.queue.Save(ctx, t.ID); err != nil {
		return nil, nil, err
	}
	t, err := f.queue.Store.Read(t.ID)
	if err != nil {
		return nil, nil, err
	}
	return f.Saved(ctx, t)
}

func (f fleetLocal) Saved(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	return f.saves.open(ctx, t)
}

// Enter says how to log in to the box of a task. What it says holds for this life of the box.
func (f fleetLocal) Enter(ctx context.Context, t agentbox.Task) (*api.Connection, *agentbox.Job, error) {
	last := t.Last()
	if last == nil {
		return nil, nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		c, j, err := f.elsewhere.Enter(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
		return &c, j, err
	}
	c, err := f.boxes.Connect(ctx, api.BoxRef{Box: last.BoxName}, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := f.queue.Jobs.Show(ctx, last.BoxName, last.Job)
	return &c, &j.Job, err
}

func (f fleetLocal) SSH(ctx context.Context, t agentbox.Task) (net.Conn, error) {
	last := t.Last()
	if last == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		return f.elsewhere.SSH(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
	}
	return f.boxes.SSH(ctx, api.BoxRef{Box: last.BoxName})
}

// Follow writes what a task's command writes, when it has begun, until it ends.
func (f fleetLocal) Follow(ctx context.Context, t agentbox.Task, w io.Writer) error {
	if t.Where != "" {
		return f.elsewhere.followTask(ctx, t.ID, w)
	}
	for {
		if last := t.Last(); last != nil {
			if j, err := f.queue.Jobs.Show(ctx, last.BoxName, last.Job); err == nil {
				return job.OpenTranscript(j.Dir).WriteText(ctx, w, true)
			}
		}
		if !background.Sleep(ctx, followEvery) {
			return ctx.Err()
		}
		var err error
		if t, err = f.queue.Store.Read(t.ID); err != nil || t.State.Done() {
			return err
		}
	}
}

// Freeze stops the box of a task at once.
func (f fleetLocal) Freeze(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	return host.Halt(ctx, f.boxes, api.BoxRef{Box: last.BoxName}, true)
}

// Still lets the box go on without its command.
func (f fleetLocal) Still(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return agentbox.Errorf(agentbox.NotFound, "the box of task %s is not made yet", t.ID)
	}
	if err := host.Halt(ctx, f.boxes, api.BoxRef{Box: last.BoxName}, false); err != nil {
		return err
	}
	return f.queue.Jobs.Signal(ctx, api.JobSignal{ID: last.Job, Signal: "STOP"})
}

func (f fleetLocal) Return(id agentbox.TaskID) error  { return f.queue.Return(id) }
func (f fleetLocal) Returned(id agentbox.TaskID) bool { return f.queue.Returned(id) }
