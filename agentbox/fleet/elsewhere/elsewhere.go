package elsewhere

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
	"agentbox/agentbox/task/tasks"
	"agentbox/mesh/identity"
)

// Boxes reaches the boxes of this machine's tasks that others of its team run, for calls that
// Name the task, or the box as an earlier call told it, and those that others let it enter where they
// are. It asks the other machine each time.
type Boxes struct {
	fleet.Boxes
	Ctx    context.Context // ends with the daemon
	Here   *host.Manager   // the boxes of this machine
	Store  task.Store
	Team   Team
	Saves  tasks.Saves
	Worker *fleet.Worker
	File   string // of what the next daemon is to know

	mu    sync.Mutex
	seen  map[agentbox.BoxID]BoxThere // boxes that somebody was told of
	ports map[portThere]forwarding
}

// BoxThere is a box of another machine, and how it is called here: "" by its ID.
type BoxThere struct {
	fleet.BoxAt
	Called string
}

// maxSeen bounds the boxes that are remembered.
const maxSeen = 1000

// of finds the box of another machine that a name means: that of a task of ours, by the task's whole ID,
// or one that somebody was told of.
func (b *Boxes) of(name string) (BoxThere, bool) {
	b.mu.Lock()
	b.recall()
	for id, at := range b.seen {
		if id.String() == name || name != "" && at.Called == name && at.Name != "" {
			b.mu.Unlock()
			return at, true
		}
	}
	b.mu.Unlock()
	id, err := agentbox.ParseTaskID(name)
	if err != nil {
		return BoxThere{}, false
	}
	t, err := b.Store.Read(id)
	if err != nil || t.Where == "" || t.Last() == nil || t.Last().Result != nil {
		return BoxThere{}, false
	}
	return BoxThere{fleet.BoxAt{Task: id, Attempt: t.Last().Number}, id.String()}, true
}

// LogIn asks how to log in to a box, and remembers which one it is.
func (b *Boxes) LogIn(ctx context.Context, at BoxThere) (api.Connection, *agentbox.Job, error) {
	c, j, err := b.Enter(ctx, at.BoxAt)
	if agentbox.CodeOf(err) == agentbox.Forbidden && at.Name != "" {
		err = NotShared(at.Name, b.Team.Name(at.Peer), true, b.Team.Name(b.Team.Self()))
	}
	if err != nil {
		return c, j, err
	}
	if _, err := b.Here.Find(ctx, api.BoxRef{Box: c.Box.String()}); err == nil {
		return c, j, agentbox.Errorf(agentbox.Corrupt, "the other machine names a box of this one")
	}
	c.Name = cmp.Or(at.Called, c.Box.String())
	return c, j, b.remember(c.Box, at)
}

// Connect is api.Connect: for a box here, or else one elsewhere.
func (b *Boxes) Connect(ctx context.Context, ref api.BoxRef, progress agentbox.Progress) (api.Connection, error) {
	c, err := b.Here.Connect(ctx, ref, progress)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if at, ok := b.of(ref.Box); ok {
			c, _, err = b.LogIn(ctx, at)
		}
	}
	return c, err
}

func (b *Boxes) OpenSSH(ctx context.Context, ref api.BoxRef) (net.Conn, error) {
	conn, err := b.Here.SSH(ctx, ref)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		if at, ok := b.of(ref.Box); ok {
			return b.SSH(ctx, at.BoxAt)
		}
	}
	return conn, err
}

// Waits says for what a task waits; nil if it does not wait for a machine of the team.
func (b *Boxes) Waits(t agentbox.Task) *api.TaskWait {
	last := t.Last()
	if t.Where == "" || last == nil || last.Result != nil {
		return nil
	}
	since, need, why, ok := b.Owner.Waiting(t.ID, last.Number)
	if !ok {
		return nil
	}
	w := &api.TaskWait{Since: since, CPUs: need.CPUs, Memory: need.Memory, Machines: []api.TeamMachine{}}
	if why != nil {
		w.Problem = agentbox.AsError(why).Message
	}
	for _, m := range fleet.Machines(b.Team) {
		w.Machines = append(w.Machines, api.TeamMachine(m))
	}
	return w
}

// Refuse has a task of another machine that runs here go back.
func (b *Boxes) Refuse(t agentbox.Task) error { return b.Worker.Refuse(t) }

// Keeper finds the builder that keeps tasks by its name.
func (b *Boxes) Keeper(name string) (identity.PeerID, error) {
	m := b.Team.Mesh
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

func (b *Boxes) Transfer(id agentbox.TaskID, to identity.PeerID) error {
	return b.Owner.Transfer(id, to)
}

func (b *Boxes) Followed() <-chan struct{} { return b.Owner.Followed() }

// Job is the one that runs in a box of another machine.
func (b *Boxes) Job(ctx context.Context, box string) (j *agentbox.Job, known bool, err error) {
	at, known := b.of(box)
	if known {
		_, j, err = b.LogIn(ctx, at)
	}
	return j, known, err
}

// saveTimeout is for a worker that is asked for a snapshot; the one before it serves then.
const saveTimeout = time.Minute

// WorkSoFar is what a task that another machine runs has done so far: a snapshot of now or, if the machine
// cannot be reached, the last one.
func (b *Boxes) WorkSoFar(ctx context.Context, t agentbox.Task, a agentbox.Attempt) (*snapshot.Kept, error) {
	asking, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	unrecorded := false
	err := b.Save(asking, t.ID, a.Number, func(document []byte, pack io.Reader) error {
		saved, err := b.Saves.Accept(asking, t, document, pack)
		if err != nil {
			return err
		}
		a.Saved = &saved
		err = b.Owner.Saved(asking, t.ID, a.Number, saved)
		unrecorded = err != nil
		return err
	})
	if unrecorded {
		defer b.Saves.Drop(context.WithoutCancel(ctx), a)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if a.Saved == nil {
		return nil, agentbox.Errorf(agentbox.CodeOf(err), "what task %s has done so far cannot be had: %w", t.ID, err).WithHint("agentbox task show %s says where it runs", t.ID)
	}
	kept, err := b.Saves.Work(ctx, t, a)
	return &kept, err
}

// FollowEvery is how often a task is looked at that nobody runs yet.
const FollowEvery = 200 * time.Millisecond

// FollowTask writes what the command of a task that runs elsewhere writes, until the task has ended. If
// another machine begins it anew, so does the output.
func (b *Boxes) FollowTask(ctx context.Context, id agentbox.TaskID, w io.Writer) error {
	var fence uint64
	out := &repeated{to: w}
	for {
		t, err := b.Store.Read(id)
		if err != nil {
			return err
		}
		last := t.Last()
		if last != nil && last.Result != nil && t.State.Done() {
			out.at = 0
			f, err := b.Store.Transcript(id, last.Number)
			if err != nil {
				return nil // it has written nothing
			}
			defer f.Close()
			return job.WriteCastText(out, f)
		}
		if last != nil && last.Result == nil && last.Worker != "" {
			var lease fleet.Lease
			_ = durable.ReadJSON(filepath.Join(b.Store.Attempt(id, last.Number), fleet.LeaseFile), &lease)
			if lease.Fence != fence {
				fence, out = lease.Fence, &repeated{to: w}
			}
			out.at = 0
			_ = b.Follow(ctx, id, last.Number, out) // what is missing comes with the result
		}
		if out.err != nil {
			return out.err
		}
		if !background.Sleep(ctx, FollowEvery) {
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

// NotShared is the error about a context that this machine may not enter, or with push not change.
func NotShared(name, machine string, push bool, self string) error {
	flag := ""
	if push {
		flag = "--push "
	}
	return agentbox.Errorf(agentbox.Forbidden, "%s of %s is not shared with you", name, machine).
		WithHint("ask who works at %s to run: agentbox task share %s%s %s", machine, flag, name, self)
}
