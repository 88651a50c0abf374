package e2b

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
	"agentbox/agentbox/environment"
)

// processes serves process.Process. A process is a job of the box: it goes on when its client leaves,
// when the sandbox is paused and resumed, and when serve ends. Its PID is the job's ID as a number,
// and not the one that it has in the box.
func (f *Face) processes() {
	const service = "/process.Process/"
	f.inner.Handle(service+"Start", connect.NewServerStreamHandler(service+"Start", f.start, options...))
	f.inner.Handle(service+"Connect", connect.NewServerStreamHandler(service+"Connect", f.follow, options...))
	call(f.inner, service+"List", f.listProcesses)
	call(f.inner, service+"SendSignal", aboutProcess(f.sendSignal))
	call(f.inner, service+"SendInput", aboutProcess(f.sendInput))
	call(f.inner, service+"CloseStdin", aboutProcess(f.closeInput))
	call(f.inner, service+"Update", aboutProcess(f.resize))
}

// call registers a call that is no stream.
func call[Req, Resp any](mux *http.ServeMux, procedure string, do func(context.Context, session, http.Header, *Req) (*Resp, error)) {
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[Req]) (*connect.Response[Resp], error) {
		resp, err := do(ctx, sessionOf(ctx), req.Header(), req.Msg)
		if err != nil {
			return nil, asConnect(err)
		}
		return connect.NewResponse(resp), nil
	}, options...))
}

func aboutProcess[Req any, P interface {
	*Req
	job() (agentbox.JobID, error)
}](do func(context.Context, session, agentbox.JobID, *Req) error) func(context.Context, session, http.Header, *Req) (*empty, error) {
	return func(ctx context.Context, s session, _ http.Header, req *Req) (*empty, error) {
		id, err := P(req).job()
		if err == nil {
			err = do(ctx, s, id, req)
		}
		return &empty{}, err
	}
}

func (p *processRequest) job() (id agentbox.JobID, err error) {
	if p.Process.PID == 0 {
		return id, agentbox.Errorf(agentbox.Invalid, "a process is named by its pid")
	}
	binary.BigEndian.PutUint32(id[:], p.Process.PID)
	return id, nil
}

func pidOf(id agentbox.JobID) uint32 { return binary.BigEndian.Uint32(id[:]) }

// userOf is the user that a request names: the name of basic authentication, without a password.
func userOf(h http.Header) string {
	text, ok := strings.CutPrefix(h.Get("Authorization"), "Basic ")
	plain, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return ""
	}
	user, _, _ := strings.Cut(string(plain), ":")
	return user
}

func (f *Face) start(ctx context.Context, req *connect.Request[startRequest], stream *connect.ServerStream[processResponse]) error {
	s, user := sessionOf(ctx), userOf(req.Header())
	conn, release, err := f.conns.open(ctx, s, user)
	if err != nil {
		return asConnect(err)
	}
	defer release()
	spec, err := specOf(req.Msg, conn.box, user)
	if err != nil {
		return asConnect(err)
	}
	started, err := client.Call(ctx, s.Client, api.StartJob, api.JobStart{BoxRef: refTo(s.box), Spec: spec}, nil)
	if err == nil && started.Refused != nil {
		err = agentbox.Errorf(agentbox.Invalid, "%s", agentbox.Printable(started.Refused.Reason))
	}
	if err != nil {
		return asConnect(err)
	}
	// The time is that of the process, also if its client leaves before.
	ended := func() bool { return false }
	if at, ok := ctx.Deadline(); ok && (s.grant.Expires.IsZero() || at.Before(s.grant.Expires)) {
		ended = time.AfterFunc(time.Until(at), func() { f.killLate(s, spec.ID) }).Stop
	}
	return f.send(ctx, req.Header(), stream, conn, environment.JobAttach{Job: spec.ID.String(), Whole: true}, spec.TTY, ended)
}

func specOf(req *startRequest, box api.Connection, user string) (agentbox.JobSpec, error) {
	p := req.Process
	spec := agentbox.JobSpec{ID: agentbox.NewJobID(), Expect: true}
	spec.Argv, spec.Env, spec.User, spec.Dir, spec.Input = append([]string{p.Cmd}, p.Args...), p.Envs, box.User, box.Dir, req.Stdin == nil || *req.Stdin
	if user != "" && user != "user" {
		spec.User = user
	}
	if p.Cmd == "" {
		return spec, agentbox.Errorf(agentbox.Invalid, "there is no command")
	}
	if p.Cwd != "" {
		spec.Dir = path.Join(box.Dir, p.Cwd)
		if path.IsAbs(p.Cwd) {
			spec.Dir = p.Cwd
		}
	}
	if req.PTY != nil {
		spec.TTY, spec.Term, spec.Columns, spec.Rows = true, "xterm-256color", int(req.PTY.Size.Cols), int(req.PTY.Size.Rows)
		if term := p.Envs["TERM"]; term != "" {
			spec.Term = term
		}
	}
	return spec, nil
}

// killLate ends a process whose time is over. One that has ended is left alone.
func (f *Face) killLate(s session, id agentbox.JobID) {
	f.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, ctx, done := f.as(ctx, s.grant)
		defer done()
		_, _ = client.Call(ctx, c.Client, api.SignalJob, api.JobSignal{BoxRef: refTo(s.box), ID: id, Signal: "KILL"}, nil)
	})
}

func (f *Face) follow(ctx context.Context, req *connect.Request[processRequest], stream *connect.ServerStream[processResponse]) error {
	s := sessionOf(ctx)
	id, err := req.Msg.job()
	var j agentbox.Job
	if err == nil {
		j, err = runningJob(ctx, s, id)
	}
	if err != nil {
		return asConnect(err)
	}
	conn, release, err := f.conns.open(ctx, s, "")
	if err != nil {
		return asConnect(err)
	}
	defer release()
	return f.send(ctx, req.Header(), stream, conn, environment.JobAttach{Job: id.String(), Whole: true}, j.TTY, func() bool { return false })
}

func runningJob(ctx context.Context, s session, id agentbox.JobID) (agentbox.Job, error) {
	j, err := client.Call(ctx, s.Client, api.ShowJob, api.JobRef{BoxRef: refTo(s.box), Job: id.String()}, nil)
	if err != nil || j.State != agentbox.JobRunning {
		return j, agentbox.Classify(agentbox.NotFound, "there is no process %d", pidOf(id))
	}
	return j, nil
}

// send shows a process until it or the request ends. ended is called when the process has ended.
func (f *Face) send(ctx context.Context, h http.Header, stream *connect.ServerStream[processResponse], conn *connection, job environment.JobAttach, tty bool, ended func() bool) error {
	out := &events[processResponse]{stream: stream}
	defer out.keepAlive(h, processResponse{processEvent{KeepAlive: &empty{}}})()
	id, _ := agentbox.ParseJobID(job.Job)
	if err := out.send(processResponse{processEvent{Start: &startEvent{pidOf(id)}}}); err != nil {
		return err
	}
	cmd := environment.Command{
		Stdout: output{out, func(p []byte) dataEvent { return dataEvent{Stdout: p} }},
		Stderr: output{out, func(p []byte) dataEvent { return dataEvent{Stderr: p} }},
	}
	if tty {
		cmd.Stdout = output{out, func(p []byte) dataEvent { return dataEvent{PTY: p} }}
	}
	status, err := environment.Attach(ctx, conn.client, job, cmd)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err() // Connect makes its code of it
		}
		if agentbox.CodeOf(err) == agentbox.Unavailable {
			err = agentbox.Classify(agentbox.Unavailable, "the sandbox was killed or reached its end of life, or was paused, while the process ran")
		}
		return asConnect(err)
	}
	ended()
	return out.send(processResponse{processEvent{End: endOfProcess(status.Code)}})
}

func endOfProcess(code int) *endEvent {
	e := &endEvent{ExitCode: int32(code), Exited: true, Status: fmt.Sprintf("exit status %d", code)}
	if code != 0 {
		e.Error = e.Status
	}
	return e
}

// events sends what several goroutines have to say.
type events[T any] struct {
	mu     sync.Mutex
	stream *connect.ServerStream[T]
}

func (e *events[T]) send(v T) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stream.Send(&v)
}

// keepAlive says that a stream is there as often as its client asks for, until stop is called.
func (e *events[T]) keepAlive(h http.Header, v T) (stop func()) {
	seconds, err := strconv.Atoi(h.Get("Keepalive-Ping-Interval"))
	if err != nil || seconds < 1 || seconds > 3600 {
		seconds = 90
	}
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(time.Duration(seconds) * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if e.send(v) != nil {
					return
				}
			}
		}
	})
	return func() { close(done); work.Wait() }
}

// output is what a process writes, as events.
type output struct {
	to *events[processResponse]
	as func([]byte) dataEvent
}

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	e := o.as(p)
	return len(p), o.to.send(processResponse{processEvent{Data: &e}})
}

func (f *Face) listProcesses(ctx context.Context, s session, _ http.Header, _ *empty) (*listResponse, error) {
	all, err := client.Call(ctx, s.Client, api.ListJobs, api.JobList{BoxRef: refTo(s.box)}, nil)
	out := &listResponse{[]processInfo{}}
	for _, j := range all {
		if j.State == agentbox.JobRunning && len(j.Command) > 0 {
			out.Processes = append(out.Processes, processInfo{processConfig{Cmd: j.Command[0], Args: j.Command[1:], Cwd: j.Dir}, pidOf(j.ID)})
		}
	}
	return out, err
}

func (f *Face) sendSignal(ctx context.Context, s session, id agentbox.JobID, req *signalRequest) error {
	if req.Signal == "" {
		return agentbox.Errorf(agentbox.Invalid, "there is no signal")
	}
	_, err := runningJob(ctx, s, id)
	if err == nil {
		_, err = client.Call(ctx, s.Client, api.SignalJob, api.JobSignal{BoxRef: refTo(s.box), ID: id, Signal: strings.TrimPrefix(string(req.Signal), "SIGNAL_SIG")}, nil)
	}
	if agentbox.CodeOf(err) == agentbox.Conflict { // it has ended since
		return agentbox.Classify(agentbox.NotFound, "%w", err)
	}
	return err
}

type inputKey struct {
	box agentbox.BoxID
	job agentbox.JobID
}

// inputOf is an attachment to a process by which it gets input and sizes.
type inputOf struct {
	typed *io.PipeWriter
	sizes chan environment.Size // nil without a terminal
	ended chan struct{}         // closed when the process has ended, or does not take any
}

// input attaches to a process, once for all that it is sent.
func (f *Face) input(ctx context.Context, s session, id agentbox.JobID) (*inputOf, error) {
	key := inputKey{s.box.ID, id}
	f.mu.Lock()
	in := f.inputs[key]
	f.mu.Unlock()
	if in != nil {
		return in, nil
	}
	j, err := runningJob(ctx, s, id)
	if err != nil {
		return nil, err
	}
	conn, release, err := f.conns.open(ctx, s, "")
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	mine := &inputOf{typed: w, ended: make(chan struct{})}
	cmd := environment.Command{Stdin: r}
	if j.TTY {
		mine.sizes = make(chan environment.Size)
		cmd.TTY = &environment.PTY{Resize: mine.sizes}
	}
	f.mu.Lock()
	if in = f.inputs[key]; in == nil {
		f.inputs[key] = mine
	}
	f.mu.Unlock()
	if in != nil {
		release()
		return in, nil
	}
	f.work.Go(func() {
		defer release()
		_, _ = environment.Attach(context.Background(), conn.client, environment.JobAttach{Job: id.String(), EndInput: true}, cmd)
		f.mu.Lock()
		delete(f.inputs, key)
		f.mu.Unlock()
		r.CloseWithError(agentbox.Errorf(agentbox.NotFound, "process %d has ended", pidOf(id)))
		close(mine.ended)
	})
	return mine, nil
}

func (f *Face) sendInput(ctx context.Context, s session, id agentbox.JobID, req *inputRequest) error {
	in, err := f.input(ctx, s, id)
	if err == nil {
		_, err = in.typed.Write(append(req.Input.Stdin, req.Input.PTY...))
	}
	return err
}

func (f *Face) closeInput(ctx context.Context, s session, id agentbox.JobID, _ *processRequest) error {
	in, err := f.input(ctx, s, id)
	if err == nil {
		err = in.typed.Close()
	}
	return err
}

func (f *Face) resize(ctx context.Context, s session, id agentbox.JobID, req *resizeRequest) error {
	in, err := f.input(ctx, s, id)
	if err != nil || req.PTY == nil {
		return err
	}
	if in.sizes == nil {
		return agentbox.Errorf(agentbox.Invalid, "process %d has no terminal", pidOf(id))
	}
	select {
	case in.sizes <- environment.Size{Width: int(req.PTY.Size.Cols), Height: int(req.PTY.Size.Rows)}:
		return nil
	case <-in.ended:
		return agentbox.Errorf(agentbox.NotFound, "process %d has ended", pidOf(id))
	case <-ctx.Done():
		return ctx.Err()
	}
}
