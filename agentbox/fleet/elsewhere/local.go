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

func (t Team) Offers() map[identity.PeerID][]catalogue.Record {
	return t.Team.OffersOfOthers()
}

// Name is a member's name, or its ID if it is none.
func (t Team) Name(id identity.PeerID) string {
	if m := t.Mesh; m != nil {
		if member, err := m.Find(id.String()); err == nil {
			return cmp.Or(member.Name, id.Short())
		}
	}
	return id.Short()
}

// Member is the name of one that is known by its ID as text; any other text stays.
func (t Team) Member(id string) string {
	if peer, err := identity.ParsePeer(id); err == nil {
		return t.Name(peer)
	}
	return id
}

// IsMember holds also while the team cannot be read.
func (t Team) IsMember(id identity.PeerID) bool {
	if t.Mesh == nil {
		return true
	}
	_, err := t.Mesh.Find(id.String())
	return agentbox.CodeOf(err) != agentbox.NotFound
}

// Here tells whether gossip sees a member.
func (t Team) Here(id identity.PeerID) bool {
	return t.Mesh != nil && t.Mesh.IsOnline(id)
}

func (t Team) Self() identity.PeerID {
	if m := t.Mesh; m != nil {
		return m.Self()
	}
	return identity.PeerID{}
}

func (t Team) Dial(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
	return t.DialService(ctx, peer, fleet.Service)
}

func (t Team) DialLine(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
	node, err := t.node()
	if err != nil {
		return nil, err
	}
	return node.DialLine(ctx, peer, fleet.Service)
}

func (t Team) DialService(ctx context.Context, peer identity.PeerID, service wire.Service) (*wire.Conn, error) {
	node, err := t.node()
	if err != nil {
		return nil, err
	}
	return node.Dial(ctx, peer, service)
}

func (t Team) node() (*wire.Node, error) {
	if m := t.Mesh; m != nil {
		if node := m.Node(); node != nil {
			return node, nil
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
	Settings  func() idle.Settings
	Team      Team
	Elsewhere *Boxes
}

func (l Local) Idle(ctx context.Context) (fleet.Readiness, error) {
	s, err := l.Settings().Status(ctx)
	r := fleet.Readiness{Against: s.Against, Ends: idle.Ends(s.Policy, s.Facts), Serves: func(owner string) bool { return idle.Serves(s.Policy, owner) }}
	r.Machine = fleet.Machine{Labels: s.Policy.Labels, Against: r.Ends}
	if m, measureErr := l.Boxes.Capacity.Measure(); measureErr == nil {
		r.Machine.CPUs, r.Machine.Memory = m.CPUs, m.Most()
	}
	return r, err
}

// Keeps is so for the team's builders, which are always on.
func (l Local) Keeps() bool {
	m := l.Team.Mesh
	return m != nil && m.IsBuilder(m.Self())
}

func (l Local) Fits(need resources.Share) bool { return l.Boxes.Capacity.HasRoom(nil, need) }

func (l Local) Images() (all []string) {
	list, _ := l.Boxes.Images.Store.Digests() // it only decides what comes first
	for _, d := range list {
		all = append(all, d.Short())
	}
	return all
}

func (l Local) Missing(manifest io.Reader) ([]agentbox.Digest, error) {
	return l.Sources.Missing(manifest)
}

func (l Local) Import(ctx context.Context, r io.Reader) (agentbox.Digest, func(), error) {
	c, release, err := l.Sources.Import(ctx, r)
	return c.Digest(), release, err
}

func (l Local) Submit(ctx context.Context, spec agentbox.TaskSpec) (agentbox.Task, error) {
	all, err := l.NewTasks(ctx, api.TaskSubmission{Spec: spec, Commands: [][]string{spec.Command}}, nil)
	if err != nil {
		return agentbox.Task{}, err
	}
	return all[0], nil
}

func (l Local) Tasks() []agentbox.Task { return l.Queue.Store.OfOthers() }

func (l Local) Cancel(id agentbox.TaskID) error { return l.Queue.Cancel(id) }

// Remove removes a task when its box is gone, or leaves it to that.
func (l Local) Remove(id agentbox.TaskID) error {
	t, err := l.Queue.Wait(l.Ctx, id)
	if err != nil {
		return err
	}
	if boxLeft(t) != "" {
		return l.Queue.Deliver(id)
	}
	return l.Queue.Remove(id)
}

// Forget removes the box first: who finds the task still there tries again.
func (l Local) Forget(ctx context.Context, t agentbox.Task) error {
	if box := boxLeft(t); box != "" {
		if _, err := l.Boxes.Remove(ctx, api.BoxRef{Box: box}, nil); err != nil && agentbox.CodeOf(err) != agentbox.NotFound {
			return err
		}
	}
	return l.Queue.Remove(t.ID)
}

// boxLeft is the box that has what could not be kept of a task; "" for none.
func boxLeft(t agentbox.Task) string {
	if last := t.Last(); last != nil && last.Result != nil {
		return last.Result.Box
	}
	return ""
}

// Written copies the transcript of the last attempt: its job's while that runs, later the kept one.
func (l Local) Written(ctx context.Context, t agentbox.Task, w io.Writer) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	if last.Result != nil || t.Where != "" {
		kept, err := l.Queue.Store.Transcript(t.ID, last.Number)
		if err != nil {
			return err
		}
		defer kept.Close()
		_, err = io.Copy(w, kept)
		return err
	}
	j, err := l.Queue.Jobs.Show(ctx, last.BoxName, last.Job)
	if err != nil {
		return err
	}
	return job.OpenTranscript(j.Dir).WriteCast(ctx, w)
}

// Pack writes the work of a task, nothing if it did none.
func (l Local) Pack(ctx context.Context, t agentbox.Task, w io.Writer) error {
	ref := api.BoxRef{Box: t.ID.String()}
	kept, err := l.Work.Find(ctx, &ref)
	if err != nil || kept == nil {
		return nil // the result says what there is
	}
	return snapshot.Send(ctx, *kept, w)
}

// Save takes a snapshot of a task's box, and replaces the last one. Of a task that is only kept here it
// is the last one.
func (l Local) Save(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	if t.Where != "" {
		return l.Saved(ctx, t)
	}
	if _, err := l.Queue.Save(ctx, t.ID); err != nil {
		return nil, nil, err
	}
	t, err := l.Queue.Store.Read(t.ID)
	if err != nil {
		return nil, nil, err
	}
	return l.Saved(ctx, t)
}

func (l Local) Saved(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	return l.Saves.Open(ctx, t)
}

// Enter says how to log in to the box of a task. What it says holds for this life of the box.
func (l Local) Enter(ctx context.Context, t agentbox.Task) (*api.Connection, *agentbox.Job, error) {
	last := t.Last()
	if last == nil {
		return nil, nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		c, j, err := l.Elsewhere.Enter(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
		return &c, j, err
	}
	c, err := l.Boxes.Connect(ctx, api.BoxRef{Box: last.BoxName}, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := l.Queue.Jobs.Show(ctx, last.BoxName, last.Job)
	return &c, &j.Job, err
}

func (l Local) SSH(ctx context.Context, t agentbox.Task) (net.Conn, error) {
	last := t.Last()
	if last == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		return l.Elsewhere.SSH(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
	}
	return l.Boxes.SSH(ctx, api.BoxRef{Box: last.BoxName})
}

// Follow writes what a task's command writes, when it has begun, until it ends.
func (l Local) Follow(ctx context.Context, t agentbox.Task, w io.Writer) error {
	if t.Where != "" {
		return l.Elsewhere.FollowTask(ctx, t.ID, w)
	}
	for {
		if last := t.Last(); last != nil {
			if j, err := l.Queue.Jobs.Show(ctx, last.BoxName, last.Job); err == nil {
				return job.OpenTranscript(j.Dir).WriteText(ctx, w, true)
			}
		}
		if !background.Sleep(ctx, FollowEvery) {
			return ctx.Err()
		}
		var err error
		if t, err = l.Queue.Store.Read(t.ID); err != nil || t.State.Done() {
			return err
		}
	}
}

// Freeze stops the box of a task at once.
func (l Local) Freeze(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	return host.Halt(ctx, l.Boxes, api.BoxRef{Box: last.BoxName}, true)
}

// Still lets the box go on without its command.
func (l Local) Still(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return agentbox.Errorf(agentbox.NotFound, "the box of task %s is not made yet", t.ID)
	}
	if err := host.Halt(ctx, l.Boxes, api.BoxRef{Box: last.BoxName}, false); err != nil {
		return err
	}
	return l.Queue.Jobs.Signal(ctx, api.JobSignal{ID: last.Job, Signal: "STOP"})
}

func (l Local) Return(id agentbox.TaskID) error  { return l.Queue.Return(id) }
func (l Local) Returned(id agentbox.TaskID) bool { return l.Queue.Returned(id) }
