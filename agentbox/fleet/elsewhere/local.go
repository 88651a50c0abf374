package elsewhere

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
	"agentbox/agentbox/source/sources"
	"agentbox/agentbox/task"
	"agentbox/agentbox/task/tasks"
	"agentbox/agentbox/team"
	"agentbox/mesh"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// Team is the mesh as workers see it (fleet.Team).
type Team struct {
	Mesh *mesh.Mesh // nil without one
	Team *team.Team
}

func (f Team) Offers() map[identity.PeerID][]catalogue.Record {
	return f.Team.OffersOfOthers()
}

// Name is a member's name, or its ID if it is none.
func (f Team) Name(id identity.PeerID) string {
	if m := f.Mesh; m != nil {
		if member, err := m.Find(id.String()); err == nil {
			return cmp.Or(member.Name, id.Short())
		}
	}
	return id.Short()
}

// Member is the name of one that is known by its ID as text; any other text stays.
func (f Team) Member(id string) string {
	if peer, err := identity.ParsePeer(id); err == nil {
		return f.Name(peer)
	}
	return id
}

func (f Team) Self() identity.PeerID {
	if m := f.Mesh; m != nil {
		return m.Self()
	}
	return identity.PeerID{}
}

func (f Team) Dial(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
	return f.DialService(ctx, peer, fleet.Service)
}

func (f Team) DialService(ctx context.Context, peer identity.PeerID, service wire.Service) (*wire.Conn, error) {
	if m := f.Mesh; m != nil {
		if node := m.Node(); node != nil {
			return node.Dial(ctx, peer, service)
		}
	}
	return nil, agentbox.Errorf(agentbox.Unavailable, "this machine is in no team now")
}

// Local is this machine as a worker sees it (fleet.Local).
type Local struct {
	Ctx       context.Context // ends with the daemon
	Boxes     *host.Manager
	Queue     *task.Queue
	NewTasks  func(context.Context, api.TaskSubmission, agentbox.Progress) ([]agentbox.Task, error)
	Work      tasks.Work
	Saves     tasks.Saves
	Sources   sources.Sources
	Keeper    func() idle.Keeper
	Team      Team
	Elsewhere *Boxes
}

func (f Local) Idle(ctx context.Context) (fleet.Readiness, error) {
	s, err := f.Keeper().Status(ctx)
	r := fleet.Readiness{Against: s.Against, Ends: idle.Ends(s.Policy, s.Facts), Serves: func(owner string) bool { return idle.Serves(s.Policy, owner) }}
	r.Machine = fleet.Machine{Labels: s.Policy.Labels, Against: r.Ends}
	if m, measureErr := f.Boxes.Capacity.Measure(); measureErr == nil {
		r.Machine.CPUs, r.Machine.Memory = m.CPUs, m.Most()
	}
	return r, err
}

// Keeps is so for the team's builders, which are always on.
func (f Local) Keeps() bool {
	m := f.Team.Mesh
	return m != nil && m.IsBuilder(m.Self())
}

func (f Local) Fits(need resources.Share) bool { return f.Boxes.Capacity.HasRoom(nil, need) }

func (f Local) Missing(manifest io.Reader) ([]agentbox.Digest, error) {
	return f.Sources.Missing(manifest)
}

func (f Local) Import(ctx context.Context, r io.Reader) (agentbox.Digest, func(), error) {
	c, release, err := f.Sources.Import(ctx, r)
	return c.Digest(), release, err
}

func (f Local) Submit(ctx context.Context, spec agentbox.TaskSpec) (agentbox.Task, error) {
	all, err := f.NewTasks(ctx, api.TaskSubmission{Spec: spec, Commands: [][]string{spec.Command}}, nil)
	if err != nil {
		return agentbox.Task{}, err
	}
	return all[0], nil
}

func (f Local) Tasks() []agentbox.Task { return tasks.OfOthers(f.Queue.Store) }

func (f Local) Cancel(id agentbox.TaskID) error { return f.Queue.Cancel(id) }

// Remove removes a task when its box is gone.
func (f Local) Remove(id agentbox.TaskID) error {
	if _, err := f.Queue.Wait(f.Ctx, id); err != nil {
		return err
	}
	return f.Queue.Remove(id)
}

// Written copies the transcript of the last attempt: its job's while that runs, later the kept one.
func (f Local) Written(ctx context.Context, t agentbox.Task, w io.Writer) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	if last.Result != nil || t.Where != "" {
		kept, err := f.Queue.Store.Transcript(t.ID, last.Number)
		if err != nil {
			return err
		}
		defer kept.Close()
		_, err = io.Copy(w, kept)
		return err
	}
	j, err := f.Queue.Jobs.Show(ctx, last.BoxName, last.Job)
	if err != nil {
		return err
	}
	return job.OpenTranscript(j.Dir).WriteCast(ctx, w)
}

// Pack writes the work of a task, nothing if it did none.
func (f Local) Pack(ctx context.Context, t agentbox.Task, w io.Writer) error {
	ref := api.BoxRef{Box: t.ID.String()}
	kept, err := f.Work.Find(ctx, &ref)
	if err != nil || kept == nil {
		return nil // the result says what there is
	}
	return snapshot.Send(ctx, *kept, w)
}

// Save takes a snapshot of a task's box, and replaces the last one. Of a task that is only kept here it
// is the last one.
func (f Local) Save(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	if t.Where != "" {
		return f.Saved(ctx, t)
	}
	if _, err := f.Queue.Save(ctx, t.ID); err != nil {
		return nil, nil, err
	}
	t, err := f.Queue.Store.Read(t.ID)
	if err != nil {
		return nil, nil, err
	}
	return f.Saved(ctx, t)
}

func (f Local) Saved(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	return f.Saves.Open(ctx, t)
}

// Enter says how to log in to the box of a task. What it says holds for this life of the box.
func (f Local) Enter(ctx context.Context, t agentbox.Task) (*api.Connection, *agentbox.Job, error) {
	last := t.Last()
	if last == nil {
		return nil, nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		c, j, err := f.Elsewhere.Enter(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
		return &c, j, err
	}
	c, err := f.Boxes.Connect(ctx, api.BoxRef{Box: last.BoxName}, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := f.Queue.Jobs.Show(ctx, last.BoxName, last.Job)
	return &c, &j.Job, err
}

func (f Local) SSH(ctx context.Context, t agentbox.Task) (net.Conn, error) {
	last := t.Last()
	if last == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		return f.Elsewhere.SSH(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
	}
	return f.Boxes.SSH(ctx, api.BoxRef{Box: last.BoxName})
}

// Follow writes what a task's command writes, when it has begun, until it ends.
func (f Local) Follow(ctx context.Context, t agentbox.Task, w io.Writer) error {
	if t.Where != "" {
		return f.Elsewhere.FollowTask(ctx, t.ID, w)
	}
	for {
		if last := t.Last(); last != nil {
			if j, err := f.Queue.Jobs.Show(ctx, last.BoxName, last.Job); err == nil {
				return job.OpenTranscript(j.Dir).WriteText(ctx, w, true)
			}
		}
		if !background.Sleep(ctx, FollowEvery) {
			return ctx.Err()
		}
		var err error
		if t, err = f.Queue.Store.Read(t.ID); err != nil || t.State.Done() {
			return err
		}
	}
}

// Freeze stops the box of a task at once.
func (f Local) Freeze(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	return host.Halt(ctx, f.Boxes, api.BoxRef{Box: last.BoxName}, true)
}

// Still lets the box go on without its command.
func (f Local) Still(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return agentbox.Errorf(agentbox.NotFound, "the box of task %s is not made yet", t.ID)
	}
	if err := host.Halt(ctx, f.Boxes, api.BoxRef{Box: last.BoxName}, false); err != nil {
		return err
	}
	return f.Queue.Jobs.Signal(ctx, api.JobSignal{ID: last.Job, Signal: "STOP"})
}

func (f Local) Return(id agentbox.TaskID) error  { return f.Queue.Return(id) }
func (f Local) Returned(id agentbox.TaskID) bool { return f.Queue.Returned(id) }
