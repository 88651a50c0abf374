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
	"agentbox/agentbox/host"
	"agentbox/agentbox/job"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/task"
	"agentbox/mesh/identity"
)

// elsewhere reaches the boxes of this machine's tasks that others of its team run, for calls that
// name the task, or the box as an earlier call told it, and those that others let it enter where they
// are. It asks the other machine each time.
type elsewhere struct {
	fleet.Boxes
	ctx    context.Context // ends with the daemon
	boxes  *host.Manager
	store  task.Store
	team   fleetTeam
	saves  saves
	worker *fleet.Worker

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
	t, err := e.store.Read(id)
	if err != nil || t.Where == "" || t.Last() == nil || t.Last().Result != nil {
		return boxThere{}, false
	}
	return boxThere{fleet.BoxAt{Task: id, Attempt: t.Last().Number}, id.String()}, true
}

// logIn asks how to log in to a box, and remembers which one it is.
func (e *elsewhere) logIn(ctx context.Context, at boxThere) (api.Connection, *agentbox.Job, error) {
	c, j, err := e.Enter(ctx, at.BoxAt)
	if agentbox.CodeOf(err) == agentbox.Forbidden && at.Name != "" {
		err = notShared(at.Name, e.team.Name(at.Peer), true, e.team.Name(e.team.Self()))
	}
	if err != nil {
		return c, j, err
	}
	if _, err := e.boxes.Find(ctx, api.BoxRef{Box: c.Box.String()}); err == nil {
		return c, j, agentbox.Errorf(agentbox.Corrupt, "the other machine names a box of this one")
	}
	c.Name = cmp.Or(at.name, c.Box.String())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil || len(e.seen) >= maxSeen {
		e.seen = map[agentbox.BoxID]boxThere{}
	}
	e.seen[c.Box] = at
	return c, j, nil
}

// connect is api.Connect: for a box here, or else one elsewhere.
func (e *elsewhere) connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	c, err := e.boxes.Connect(ctx, ref, progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if at, ok := e.of(ref.Box); ok {
			c, _, err = e.logIn(ctx, at)
		}
	}
	return c, err
}

func (e *elsewhere) openSSH(ctx context.Context, ref api.BoxRef) (net.Conn, error) {
	conn, err := e.boxes.SSH(ctx, ref)
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
	for _, m := range fleet.Machines(e.team) {
		w.Machines = append(w.Machines, api.TeamMachine(m))
	}
	return w
}

// refuse has a task of another machine that runs here go back.
func (e *elsewhere) refuse(t agentbox.Task) error { return e.worker.Refuse(t) }

// keeper finds the builder that keeps tasks by its name.
func (e *elsewhere) keeper(name string) (identity.PeerID, error) {
	m := e.team.mesh
	if m == nil {
		return identity.PeerID{}, nil
	}
	member, err := m.Find(name)
	if err != nil {
		return identity.PeerID{}, err
	}
	if !m.IsBuilder(member.ID) || member.ID == m.Self() {
		return identity.PeerID{}, agentbox.Errorf(agentbox.Invalid, "%s is no other builder of the team, which are those that keep tasks", member.Name).WithHint("agentbox mesh trust --builder %s, by an admin", member.Name)
	}
	return member.ID, nil
}

func (e *elsewhere) transfer(id agentbox.TaskID, to identity.PeerID) error {
	return e.Owner.Transfer(id, to)
}

// job is the one that runs in a box of another machine.
func (e *elsewhere) job(ctx context.Context, box string) (j *agentbox.Job, known bool, err error) {
	at, known := e.of(box)
	if known {
		_, j, err = e.logIn(ctx, at)
	}
	return j, known, err
}

// saveTimeout is for a worker that is asked for a snapshot; the one before it serves then.
const saveTimeout = time.Minute

// workSoFar is what a task that another machine runs has done so far: a snapshot of now or, if the machine
// cannot be reached, the last one.
func (e *elsewhere) workSoFar(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (*snapshot.Kept, error) {
	asking, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	err := e.Save(asking, t.ID, a.Number, func(document []byte, pack io.Reader) error {
		saved, err := e.saves.accept(asking, t, document, pack)
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
	kept, err := e.saves.work(ctx, t, a)
	return &kept, err
}

// followEvery is how often a task is looked at that nobody runs yet.
const followEvery = 200 * time.Millisecond

// followTask writes what the command of a task that runs elsewhere writes, until the task has ended. If
// another machine begins it anew, so does the output.
func (e *elsewhere) followTask(ctx context.Context, id agentbox.TaskID, w io.Writer) error {
	var fence uint64
	out := &repeated{to: w}
	for {
		t, err := e.store.Read(id)
		if err != nil {
			return err
		}
		last := t.Last()
		if last != nil && last.Result != nil && t.State.Done() {
			out.at = 0
			f, err := e.store.Transcript(id, last.Number)
			if err != nil {
				return nil // it has written nothing
			}
			defer f.Close()
			return job.WriteCastText(out, f)
		}
		if last != nil && last.Result == nil && last.Worker != "" {
			var lease fleet.Lease
			_ = durable.ReadJSON(filepath.Join(e.store.Attempt(id, last.Number), fleet.LeaseFile), &lease)
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

// notShared is the error about a context that this machine may not enter, or with push not change.
func notShared(name, machine string, push bool, self string) error {
	flag := ""
	if push {
		flag = "--push "
	}
	return agentbox.Errorf(agentbox.Forbidden, "%s of %s is not shared with you", name, machine).
		WithHint("ask who works at %s to run: agentbox task share %s%s %s", machine, flag, name, self)
}
