package daemon

import (
	"cmp"
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/background"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/job"
	"agentbox/agentbox/kube"
	"agentbox/agentbox/snapshot"
	"agentbox/mesh/identity"
)

// elsewhere reaches the boxes of this machine's tasks that others of its team run, for calls that
// name the task, or the box as an earlier call told it, and those that others let it enter where they
// are. It asks the other machine each time.
type elsewhere struct {
	fleet.Boxes
	d *daemon

	mu    sync.Mutex
	seen  map[agentbox.BoxID]boxThere // boxes that somebody was told of
	ports map[portThere]forwarding
}

// boxThere is a box of another machine, and how it is called here: "" by its ID.
type boxThere struct {
	fleet.BoxAt
	name string
}

// maxSeen bounds the boxes that are remembered.
const maxSeen = 1000

// of finds the box of another machine that a name means: that of a task of ours, by the task's whole ID,
// or one that somebody was told of.
func (e *elsewhere) of(name string) (boxThere, bool) {
	e.mu.Lock()
	for id, at := range e.seen {
		if id.String() == name || name != "" && at.name == name && at.Name != "" {
			e.mu.Unlock()
			return at, true
		}
	}
	e.mu.Unlock()
	id, err := agentbox.ParseTaskID(name)
	if err != nil {
		return boxThere{}, false
	}
	t, err := e.d.queue.Store.Read(id)
	if err != nil || t.Where == "" || t.Last() == nil || t.Last().Result != nil {
		return boxThere{}, false
	}
	return boxThere{fleet.BoxAt{Task: id, Attempt: t.Last().Number}, id.String()}, true
}

// enter asks how to log in to a box, and remembers which one it is.
func (e *elsewhere) enter(ctx context.Context, at boxThere) (api.Connection, *agentbox.Job, error) {
	c, j, err := e.Enter(ctx, at.BoxAt)
	if agentbox.CodeOf(err) == agentbox.Forbidden && at.Name != "" {
		team := fleetTeam{e.d}
		err = notShared(at.Name, team.Name(at.Peer), true, team.Name(team.Self()))
	}
	if err != nil {
		return c, j, err
	}
	if _, err := e.d.boxes.Find(ctx, api.BoxRef{Box: c.Box.String()}); err == nil {
		return c, j, agentbox.Errorf(agentbox.Corrupt, "the other machine names a box of this one")
	}
	c.Name = cmp.Or(at.name, c.Box.String())
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) >= maxSeen {
		clear(e.seen)
	}
	e.seen[c.Box] = at
	return c, j, nil
}

// connect is api.Connect: for a box here, or else one elsewhere.
func (e *elsewhere) connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	c, err := e.d.boxes.Connect(ctx, ref, progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if at, ok := e.of(ref.Box); ok {
			c, _, err = e.enter(ctx, at)
		}
	}
	return c, err
}

func (e *elsewhere) ssh(ctx context.Context, ref api.BoxRef) (net.Conn, error) {
	conn, err := e.d.boxes.SSH(ctx, ref)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if at, ok := e.of(ref.Box); ok {
			return e.SSH(ctx, at.BoxAt)
		}
	}
	return conn, err
}

// waits says for what a task waits; nil if it does not wait for a machine of the team.
func (e *elsewhere) waits(t agentbox.Task) *api.TaskWait {
	last := t.Last()
	if t.Where == "" || last == nil || last.Result != nil {
		return nil
	}
	since, need, why, ok := e.Owner.Waiting(t.ID, last.Number)
	if !ok {
		return nil
	}
	w := &api.TaskWait{Since: since, CPUs: need.CPUs, Memory: need.Memory, Machines: []api.TeamMachine{}}
	if why != nil {
		w.Problem = agentbox.AsError(why).Message
	}
	for _, m := range fleet.Machines(fleetTeam{e.d}) {
		w.Machines = append(w.Machines, api.TeamMachine(m))
	}
	return w
}

// cancel ends a task. One of another machine's is only not run here any more: it goes back.
func (t tasks) cancel(_ context.Context, id agentbox.TaskID) (agentbox.Task, error) {
	found, err := t.queue.Store.Read(id)
	if err == nil && found.For != nil && !found.State.Done() {
		return found, t.elsewhere.d.fleet.worker.Refuse(found)
	}
	if err := t.queue.Cancel(id); err != nil {
		return agentbox.Task{}, err
	}
	return t.queue.Store.Read(id)
}

// transfer is api.TransferTasks. With names it stops at the first that fails.
func (t tasks) transfer(_ context.Context, req api.TaskTransfer, _ agentbox.Progress) (all []agentbox.Task, err error) {
	var to identity.PeerID
	if m := t.elsewhere.d.shares.mesh; req.To != "" && m != nil {
		member, err := m.Find(req.To)
		if err != nil {
			return nil, err
		}
		if to = member.ID; !m.IsBuilder(to) || to == m.Self() {
			return nil, agentbox.Errorf(agentbox.Invalid, "%s is no other builder of the team, which are those that keep tasks", member.Name).WithHint("agentbox mesh trust --builder %s, by an admin", member.Name)
		}
	}
	names := req.Tasks
	if len(names) == 0 {
		for _, open := range t.queue.Open() {
			if open.Where != "" && open.For == nil && !kube.Is(open.Where) {
				names = append(names, open.ID.String())
			}
		}
	}
	all = []agentbox.Task{}
	for _, name := range names {
		id, err := t.find(api.TaskRef{Task: name})
		if err == nil {
			err = t.elsewhere.Owner.Transfer(id, to)
		}
		if agentbox.CodeOf(err) == agentbox.Conflict && len(req.Tasks) == 0 {
			continue // it waits for its turn, or has just ended
		}
		if err != nil {
			return all, err
		}
		one, err := t.queue.Store.Read(id)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// saveTimeout is for a worker that is asked for a snapshot; the one before it serves then.
const saveTimeout = time.Minute

// work is what a task that another machine runs has done so far: a snapshot of now or, if the machine
// cannot be reached, the last one.
func (e *elsewhere) work(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (*snapshot.Kept, error) {
	asking, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	err := e.Save(asking, t.ID, a.Number, func(document []byte, pack io.Reader) error {
		saved, err := saves{e.d}.accept(asking, t, document, pack)
		if err == nil {
			a.Saved = &saved
			err = e.Owner.Saved(asking, t.ID, a.Number, saved)
		}
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if a.Saved == nil {
		return nil, agentbox.Errorf(agentbox.CodeOf(err), "what task %s has done so far cannot be had: %w", t.ID, err).WithHint("agentbox task show %s says where it runs", t.ID)
	}
	kept, err := saves{e.d}.work(ctx, t, a)
	return &kept, err
}

// followEvery is how often a task is looked at that nobody runs yet.
const followEvery = 200 * time.Millisecond

// follow writes what the command of a task that runs elsewhere writes, until the task has ended. If
// another machine begins it anew, so does the output.
func (e *elsewhere) follow(ctx context.Context, id agentbox.TaskID, w io.Writer) error {
	var fence uint64
	out := &repeated{to: w}
	for {
		t, err := e.d.queue.Store.Read(id)
		if err != nil {
			return err
		}
		last := t.Last()
		if last != nil && last.Result != nil && t.State.Done() {
			out.at = 0
			f, err := e.d.queue.Store.Transcript(id, last.Number)
			if err != nil {
				return nil // it has written nothing
			}
			defer f.Close()
			return job.WriteCastText(out, f)
		}
		if last != nil && last.Result == nil && last.Worker != "" {
			var lease fleet.Lease
			_ = durable.ReadJSON(filepath.Join(e.d.queue.Store.Attempt(id, last.Number), fleet.LeaseFile), &lease)
			if lease.Fence != fence {
				fence, out = lease.Fence, &repeated{to: w}
			}
			out.at = 0
			_ = e.Follow(ctx, id, last.Number, out) // what is missing comes with the result
		}
		if out.err != nil {
			return out.err
		}
		if !background.Sleep(ctx, followEvery) {
			return nil
		}
	}
}

// repeated passes on what is written to it once, also if it is written again from the beginning, as
// setting at to 0 says.
type repeated struct {
	to       io.Writer
	at, done int64
	err      error // of to
}

func (r *repeated) Write(b []byte) (int, error) {
	known := min(max(r.done-r.at, 0), int64(len(b)))
	n, err := r.to.Write(b[known:])
	r.at += known + int64(n)
	r.done, r.err = max(r.done, r.at), err
	return int(known) + n, err
}
