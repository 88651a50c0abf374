package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/mesh/identity"
	"agentbox/mesh/wire"
)

// BoxService is that of questions about the boxes of tasks, from owners to workers, and about those that
// members may enter where they are.
const BoxService wire.Service = "task-boxes-1"

// What an owner asks of the machine that runs its task.
const (
	askBox  = "box"  // how to log in, and the job
	askSSH  = "ssh"  // after the answer, the connection is one to the box's SSH server
	askLogs = "logs" // after the answer comes what the command writes, until it ends
	askCall = "call" // it is to beat at once
)

// boxQuestion is about an attempt of the asking peer's, or what Name names.
type boxQuestion struct {
	Do string `json:"do"`
	BoxAt
}

// BoxAt names a box of another machine: that of an attempt, or with Peer the box or task there that has
// this name or ID.
type BoxAt struct {
	Task    agentbox.TaskID `json:"task"`
	Attempt int             `json:"attempt"`
	Name    string          `json:"name,omitempty"`
	Peer    identity.PeerID `json:"-"`
}

// Entrance is a way into a box of this machine.
type Entrance struct {
	// Within ends when who was let in may stay no longer, and at the latest by Leave.
	Within context.Context
	Leave  func()
	// Enter says how to log in, and which job runs, nil if none does. SSH connects to the SSH server.
	Enter func(context.Context) (*api.Connection, *agentbox.Job, error)
	SSH   func(context.Context) (net.Conn, error)
}

type boxAnswer struct {
	Error      string          `json:"error,omitempty"`
	Code       agentbox.Code   `json:"code,omitempty"`
	Connection *api.Connection `json:"connection,omitempty"`
	Job        *agentbox.Job   `json:"job,omitempty"`
	Document   json.RawMessage `json:"document,omitempty"`
}

// Serve answers the owners of tasks that run here (wire.Handler). Each may ask about its own.
func (w *Worker) Serve(ctx context.Context, c *wire.Conn) {
	c.EachStream(ctx, 0, func(ctx context.Context, s *wire.Stream) error {
		err := w.answerBox(ctx, c.Peer(), s)
		if ctx.Err() != nil {
			return nil // the owner has gone
		}
		return err
	}, func(err error) {
		w.Log.Info("a question about a box was not answered", "peer", c.Peer().Short(), "error", err)
	})
}

// answerBox answers one question.
func (w *Worker) answerBox(ctx context.Context, peer identity.PeerID, s stream) error {
	var q boxQuestion
	if err := wire.ReadMessage(s, &q, maxMessage); err != nil {
		return err
	}
	var a boxAnswer
	then := func() error { return nil }
	t, in, err := w.entrance(ctx, peer, q)
	if err == nil {
		defer in.Leave()
		switch q.Do {
		case askBox:
			a.Connection, a.Job, err = in.Enter(in.Within)
		case askSSH:
			var box net.Conn
			if box, err = in.SSH(in.Within); err == nil {
				defer box.Close()
				then = func() error { return join(in.Within, s, box) }
			}
		case askLogs:
			then = func() error { return w.Local.Follow(ctx, t, s) }
		case askCall:
			w.beatNow(t.ID)
		case askSave:
			var pack func(context.Context, io.Writer) error
			if a.Document, pack, err = w.Local.Save(ctx, t); err == nil {
				then = func() error { return pack(ctx, s) }
			}
		default:
			err = agentbox.Errorf(agentbox.Invalid, "this build does not know %q", q.Do)
		}
	}
	if err != nil {
		a = boxAnswer{Error: agentbox.AsError(err).Message, Code: agentbox.CodeOf(err)}
		then = func() error { return nil }
	}
	if err := wire.WriteMessage(s, a); err != nil {
		return err
	}
	return errors.Join(then(), s.Close())
}

// entrance lets a peer into the box of its task, or into one that this machine's user shares.
func (w *Worker) entrance(ctx context.Context, peer identity.PeerID, q boxQuestion) (t agentbox.Task, in Entrance, err error) {
	if q.Name != "" {
		if q.Do != askBox && q.Do != askSSH {
			return t, in, agentbox.Errorf(agentbox.Invalid, "%q is for tasks of your own", q.Do)
		}
		in, err = w.Admit(ctx, peer, q.Name)
		return t, in, err
	}
	t, err = w.taskOf(peer, q)
	return t, Entrance{ctx, func() {},
		func(ctx context.Context) (*api.Connection, *agentbox.Job, error) { return w.Local.Enter(ctx, t) },
		func(ctx context.Context) (net.Conn, error) { return w.Local.SSH(ctx, t) },
	}, err
}

// beatNow has a task that is followed beat, or say how it ended, at once.
func (w *Worker) beatNow(id agentbox.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.followed[id]; ok {
		f.news.Notify()
	}
}

// taskOf finds the task of a peer. Others learn nothing of it, not even that it is here.
func (w *Worker) taskOf(peer identity.PeerID, q boxQuestion) (agentbox.Task, error) {
	for _, t := range w.Local.Tasks() {
		if t.For.Owner == peer.String() && t.For.Task == q.Task && t.For.Attempt == q.Attempt && (!t.State.Done() || q.Do == askCall) {
			return t, nil
		}
	}
	return agentbox.Task{}, agentbox.Errorf(agentbox.NotFound, "task %s does not run on that machine", q.Task)
}

// join copies between a stream and a connection until both directions have ended.
func join(ctx context.Context, s stream, box net.Conn) error {
	defer context.AfterFunc(ctx, func() { box.Close() })()
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(box, s)
		if half, ok := box.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		} else {
			box.Close()
		}
		done <- err
	}()
	_, err := io.Copy(s, box)
	_ = s.Close()
	return errors.Join(err, <-done)
}

// Worker returns the machine that runs an attempt now. The error is NotFound if none does.
func (o *Owner) Worker(t agentbox.TaskID, attempt int) (identity.PeerID, error) {
	at := o.find(question{Task: t, Attempt: attempt})
	o.mu.Lock()
	defer o.mu.Unlock()
	if at == nil || !at.lease.Held() {
		return identity.PeerID{}, agentbox.Errorf(agentbox.NotFound, "no machine runs task %s now", t)
	}
	return at.lease.Worker, nil
}

// Boxes reaches boxes that other machines run.
type Boxes struct {
	// Dial connects to a member's BoxService.
	Dial  func(ctx context.Context, peer identity.PeerID) (*wire.Conn, error)
	Owner *Owner
}

// Enter says how to log in to a box, and which job it runs, nil for none; an attempt has one. Both are the
// other machine's words, and the box is called by its ID.
func (b Boxes) Enter(ctx context.Context, at BoxAt) (c api.Connection, j *agentbox.Job, err error) {
	a, s, err := b.ask(ctx, boxQuestion{askBox, at})
	if err != nil {
		return c, nil, err
	}
	s.Close()
	return a.entered(at)
}

// entered is what an answer says of a box. Its directory goes into command lines, of editors too.
func (b boxAnswer) entered(at BoxAt) (c api.Connection, j *agentbox.Job, err error) {
	if b.Connection == nil || b.Job == nil && at.Name == "" || !path.IsAbs(b.Connection.Dir) || agentbox.Printable(b.Connection.Dir) != b.Connection.Dir {
		return c, nil, agentbox.Errorf(agentbox.Corrupt, "the other machine does not say where the box is")
	}
	c, j = *b.Connection, b.Job
	if c.Name = c.Box.String(); j != nil { // what people are shown is ours
		j.Box = c.Box
	}
	return c, j, nil
}

// SSH connects to the SSH server of a box.
func (b Boxes) SSH(ctx context.Context, at BoxAt) (net.Conn, error) {
	_, s, err := b.ask(ctx, boxQuestion{askSSH, at})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// callTimeout bounds a call of a worker, which may not be there.
const callTimeout = 10 * time.Second

// Call has a worker beat at once. One that has no such task loses its lease (Owner.Lacks). A build that does
// not know it beats often.
func (b Boxes) Call(ctx context.Context, worker identity.PeerID, t agentbox.TaskID, attempt int) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := b.Dial(ctx, worker)
	if err != nil {
		return err
	}
	defer c.Close()
	var a boxAnswer
	if err := c.Ask(ctx, boxQuestion{askCall, BoxAt{Task: t, Attempt: attempt}}, &a, maxMessage); err != nil {
		return err
	}
	if a.Code == agentbox.NotFound {
		b.Owner.Lacks(worker, t, attempt)
	}
	return nil
}

// Follow writes what the command of an attempt writes, until it ends.
func (b Boxes) Follow(ctx context.Context, t agentbox.TaskID, attempt int, w io.Writer) error {
	_, s, err := b.ask(ctx, boxQuestion{askLogs, BoxAt{Task: t, Attempt: attempt}})
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	_, err = io.Copy(w, s)
	return err
}

// Save has the worker take a snapshot, and passes it to take.
func (b Boxes) Save(ctx context.Context, t agentbox.TaskID, attempt int, take func(document []byte, pack io.Reader) error) error {
	a, s, err := b.ask(ctx, boxQuestion{askSave, BoxAt{Task: t, Attempt: attempt}})
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	return take(a.Document, s)
}

// ask asks the machine that has the box. What follows the answer is read from the connection.
func (b Boxes) ask(ctx context.Context, q boxQuestion) (a boxAnswer, s *meshConn, err error) {
	peer := q.Peer
	if q.Name == "" {
		if peer, err = b.Owner.Worker(q.Task, q.Attempt); err != nil {
			return a, nil, err
		}
	}
	c, err := b.Dial(ctx, peer)
	if err != nil {
		return a, nil, err
	}
	in, err := c.OpenStream(ctx)
	if err != nil {
		c.Close()
		return a, nil, err
	}
	s = &meshConn{Stream: in, conn: c, done: c.KeepAlive()}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := context.AfterFunc(ctx, func() { s.Close() })
	if err = wire.WriteMessage(in, q); err == nil {
		err = wire.ReadMessage(in, &a, maxMessage)
	}
	if err == nil && a.Error != "" {
		err = agentbox.Errorf(a.Code, "%s", agentbox.Printable(a.Error[:min(len(a.Error), maxText)]))
	}
	if !ended() || err != nil {
		s.Close()
		return a, nil, errors.Join(err, ctx.Err())
	}
	return a, s, nil
}

// meshConn is a stream with the connection that it alone has.
type meshConn struct {
	*wire.Stream
	conn *wire.Conn
	done func() // ends what keeps it alive
}

func (m *meshConn) Close() error {
	m.done()
	m.Stream.Abort()
	return m.conn.Close()
}

// CloseWrite ends our direction.
func (m *meshConn) CloseWrite() error    { return m.Stream.Close() }
func (m *meshConn) LocalAddr() net.Addr  { return meshAddr{} }
func (m *meshConn) RemoteAddr() net.Addr { return meshAddr{} }

// meshAddr is the address of a connection that has no other.
type meshAddr struct{}

func (meshAddr) Network() string { return "mesh" }
func (meshAddr) String() string  { return "a member of the team" }
