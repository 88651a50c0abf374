package daemon

import (
	"cmp"
	"context"
	"io"
	"net"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/cost"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/host"
	"agentbox/agentbox/idle"
	"agentbox/agentbox/job"
	"agentbox/agentbox/project"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/workspace"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// fleetParts are this machine's two parts: it owns tasks that others run, and runs those of others.
type fleetParts struct {
	owner  *fleet.Owner
	worker *fleet.Worker
	boxes  *elsewhere
}

// newFleet makes them; d.queue is set later, before anything runs.
func (d *daemon) newFleet() fleetParts {
	peers := fleetTeam{d}
	wake := background.NewSignal()
	changed := func() {
		d.shares.team.Notify()
		d.changes.Announce()
	}
	p := fleetParts{
		owner: &fleet.Owner{
			Sources: d.sources, Accept: d.acceptWork, Save: saves{d}.accept, Continue: saves{d}.Continue, Drop: saves{d}.Drop,
			Lend: d.lend, Value: d.lentValue,
			Over: d.attemptOver, Name: peers.Name, Changed: changed, Log: d.cfg.Log,
		},
		worker: &fleet.Worker{
			Team: peers, Local: fleetLocal{d}, Log: d.cfg.Log, Wake: wake, Changed: changed,
			Admit: func(ctx context.Context, member identity.PeerID, name string) (fleet.Entrance, error) {
				return d.handover.admit(ctx, member, name)
			},
		},
	}
	d.shares.team.News = func() {
		wake.Notify()
		d.changes.Announce()
	}
	d.shares.team.Offers = func() []catalogue.Record { return append(p.worker.Record(), p.owner.Offers()...) }
	p.boxes = &elsewhere{Boxes: fleet.Boxes{Owner: p.owner, Dial: func(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
		return peers.dial(ctx, peer, fleet.BoxService)
	}}, d: d, seen: map[agentbox.BoxID]boxThere{}, ports: map[portThere]forwarding{}}
	d.shares.team.Serve(fleet.Service, p.owner.Serve)
	d.shares.team.Serve(fleet.BoxService, p.worker.Serve)
	return p
}

// attemptOver tells whether nobody waits for the result of an attempt of a task of this machine.
func (d *daemon) attemptOver(id agentbox.TaskID, attempt int) bool {
	t, err := d.queue.Store.Read(id)
	if err != nil {
		return agentbox.CodeOf(err) == agentbox.NotFound
	}
	return t.State.Done() || attempt < 1 || attempt > len(t.Attempts) || t.Attempts[attempt-1].Result != nil
}

// fleetTeam is the mesh as workers see it (fleet.Team).
type fleetTeam struct{ d *daemon }

func (f fleetTeam) Offers() map[identity.PeerID][]catalogue.Record {
	return f.d.shares.team.OffersOfOthers()
}

// Name is a member's name, or its ID if it is none.
func (f fleetTeam) Name(id identity.PeerID) string {
	if m := f.d.shares.mesh; m != nil {
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
	if m := f.d.shares.mesh; m != nil {
		return m.Self()
	}
	return identity.PeerID{}
}

func (f fleetTeam) Dial(ctx context.Context, peer identity.PeerID) (*wire.Conn, error) {
	return f.dial(ctx, peer, fleet.Service)
}

func (f fleetTeam) dial(ctx context.Context, peer identity.PeerID, service wire.Service) (*wire.Conn, error) {
	if m := f.d.shares.mesh; m != nil {
		if node := m.Node(); node != nil {
			return node.Dial(ctx, peer, service)
		}
	}
	return nil, agentbox.Errorf(agentbox.Unavailable, "this machine is in no team now")
}

// fleetLocal is this machine as a worker sees it (fleet.Local).
type fleetLocal struct{ d *daemon }

func (f fleetLocal) Idle(ctx context.Context) (fleet.Readiness, error) {
	s, err := f.d.idle().Status(ctx)
	r := fleet.Readiness{Against: s.Against, Ends: idle.Ends(s.Policy, s.Facts), Serves: func(owner string) bool { return idle.Serves(s.Policy, owner) }}
	r.Machine = fleet.Machine{Labels: s.Policy.Labels, Against: r.Ends}
	if m, measureErr := f.d.boxes.Capacity.Measure(); measureErr == nil {
		r.Machine.CPUs, r.Machine.Memory = m.CPUs, m.Most()
	}
	return r, err
}

// Keeps is so for the team's builders, which are always on.
func (f fleetLocal) Keeps() bool {
	m := f.d.shares.mesh
	return m != nil && m.IsBuilder(m.Self())
}

func (f fleetLocal) Fits(need resources.Share) bool { return f.d.boxes.Capacity.HasRoom(nil, need) }

func (f fleetLocal) Missing(manifest io.Reader) ([]agentbox.Digest, error) {
	return f.d.sources.Missing(manifest)
}

func (f fleetLocal) Import(ctx context.Context, r io.Reader) (agentbox.Digest, func(), error) {
	c, release, err := f.d.sources.Import(ctx, r)
	return c.Digest(), release, err
}

func (f fleetLocal) Submit(ctx context.Context, spec agentbox.TaskSpec) (agentbox.Task, error) {
	all, err := f.d.tasks().submit(ctx, api.TaskSubmission{Spec: spec, Commands: [][]string{spec.Command}}, nil)
	if err != nil {
		return agentbox.Task{}, err
	}
	return all[0], nil
}

func (f fleetLocal) Tasks() (all []agentbox.Task) {
	list, _ := f.d.queue.Store.List() // one that cannot be read is reported elsewhere
	for _, t := range list {
		if t.For != nil {
			all = append(all, t)
		}
	}
	return all
}

func (f fleetLocal) Cancel(id agentbox.TaskID) error { return f.d.queue.Cancel(id) }

// Remove removes a task when its box is gone.
func (f fleetLocal) Remove(id agentbox.TaskID) error {
	if _, err := f.d.queue.Wait(f.d.ctx, id); err != nil {
		return err
	}
	return f.d.queue.Remove(id)
}

// Written copies the transcript of the last attempt: its job's while that runs, later the kept one.
func (f fleetLocal) Written(ctx context.Context, t agentbox.Task, w io.Writer) error {
	last := t.Last()
	if last == nil {
		return nil
	}
	if last.Result != nil || t.Where != "" {
		kept, err := f.d.queue.Store.Transcript(t.ID, last.Number)
		if err != nil {
			return err
		}
		defer kept.Close()
		_, err = io.Copy(w, kept)
		return err
	}
	j, err := f.d.queue.Jobs.Show(ctx, last.BoxName, last.Job)
	if err != nil {
		return err
	}
	return job.OpenTranscript(j.Dir).WriteCast(ctx, w)
}

// Pack writes the work of a task, nothing if it did none.
func (f fleetLocal) Pack(ctx context.Context, t agentbox.Task, w io.Writer) error {
	ref := api.BoxRef{Box: t.ID.String()}
	kept, err := f.d.taskWork().find(ctx, &ref)
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
	if _, err := f.d.queue.Save(ctx, t.ID); err != nil {
		return nil, nil, err
	}
	t, err := f.d.queue.Store.Read(t.ID)
	if err != nil {
		return nil, nil, err
	}
	return f.Saved(ctx, t)
}

func (f fleetLocal) Saved(ctx context.Context, t agentbox.Task) ([]byte, func(context.Context, io.Writer) error, error) {
	return saves(f).open(ctx, t)
}

// Enter says how to log in to the box of a task. What it says holds for this life of the box.
func (f fleetLocal) Enter(ctx context.Context, t agentbox.Task) (*api.Connection, *agentbox.Job, error) {
	last := t.Last()
	if last == nil {
		return nil, nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		c, j, err := f.d.fleet.boxes.Enter(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
		return &c, j, err
	}
	c, err := f.d.boxes.Connect(ctx, api.BoxRef{Box: last.BoxName}, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := f.d.queue.Jobs.Show(ctx, last.BoxName, last.Job)
	return &c, &j.Job, err
}

func (f fleetLocal) SSH(ctx context.Context, t agentbox.Task) (net.Conn, error) {
	last := t.Last()
	if last == nil {
		return nil, agentbox.Errorf(agentbox.Conflict, "the box of task %s is not made yet", t.For.Task)
	}
	if t.Where != "" {
		return f.d.fleet.boxes.SSH(ctx, fleet.BoxAt{Task: t.ID, Attempt: last.Number})
	}
	return f.d.boxes.SSH(ctx, api.BoxRef{Box: last.BoxName})
}

// Follow writes what a task's command writes, when it has begun, until it ends.
func (f fleetLocal) Follow(ctx context.Context, t agentbox.Task, w io.Writer) error {
	if t.Where != "" {
		return f.d.fleet.boxes.follow(ctx, t.ID, w)
	}
	for {
		if last := t.Last(); last != nil {
			if j, err := f.d.queue.Jobs.Show(ctx, last.BoxName, last.Job); err == nil {
				return job.OpenTranscript(j.Dir).WriteText(ctx, w, true)
			}
		}
		if !background.Sleep(ctx, followEvery) {
			return ctx.Err()
		}
		var err error
		if t, err = f.d.queue.Store.Read(t.ID); err != nil || t.State.Done() {
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
	return host.Halt(ctx, f.d.boxes, api.BoxRef{Box: last.BoxName}, true)
}

// Still lets the box go on without its command.
func (f fleetLocal) Still(ctx context.Context, t agentbox.Task) error {
	last := t.Last()
	if last == nil {
		return agentbox.Errorf(agentbox.NotFound, "the box of task %s is not made yet", t.ID)
	}
	if err := host.Halt(ctx, f.d.boxes, api.BoxRef{Box: last.BoxName}, false); err != nil {
		return err
	}
	return f.d.queue.Jobs.Signal(ctx, api.JobSignal{ID: last.Job, Signal: "STOP"})
}

func (f fleetLocal) Return(id agentbox.TaskID) error  { return f.d.queue.Return(id) }
func (f fleetLocal) Returned(id agentbox.TaskID) bool { return f.d.queue.Returned(id) }

// acceptWork completes what a worker says of an attempt: the work becomes that of the task here, what
// changed is read from it, and the price is by the rates of this machine.
func (d *daemon) acceptWork(ctx context.Context, t agentbox.Task, said agentbox.Result, pack io.Reader) (agentbox.Result, error) {
	if rates, err := cost.Load(d.cfg.Home.Rates()); err == nil && rates != nil && said.Used != nil {
		c := rates.Cost(*said.Used)
		said.Cost = &c
	}
	if said.Ref == "" {
		said.Commit, said.Base, said.Commits, said.Files = "", "", 0, 0
		return said, nil
	}
	repo, err := workspace.Describe(ctx, d.cfg.Home.SourceTree(t.Source.Digest))
	if err != nil {
		return said, err
	}
	mirror := d.cfg.Home.Mirror(project.Project{Name: t.Project}.ID())
	kept, err := snapshot.Receive(ctx, mirror, repo, snapshot.Kept{Commit: said.Commit, Base: repo.Commit}, pack)
	if err != nil {
		return said, err
	}
	if kept, err = snapshot.Adopt(ctx, kept, workRef(t), exportTo(t)); err != nil {
		return said, err
	}
	said.Ref, said.Base, said.Commits, said.Unexported = kept.Ref, repo.Commit, kept.Commits, kept.Unexported
	if said.Files > 0 && said.Commits > 0 {
		said.Commits-- // the one that has them
	}
	changes, err := snapshot.Changes(ctx, kept)
	if err != nil {
		said.Notes = append(said.Notes, agentbox.AsError(err).Message)
	}
	said.Changes = changes[:min(len(changes), maxChanges)]
	return said, nil
}
