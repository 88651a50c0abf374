package environment

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// Exec runs a command. It returns when the command has ended and all of its output has been written
// to cmd.Stdout and cmd.Stderr.
//
// When ctx ends, the command gets SIGTERM, after cmd.Grace SIGKILL, and the channel is closed; the
// error is then ctx's cause, and the status the command's if it is known. An error of code
// Unavailable means that the connection ended before the command did. A silent environment delays
// Exec by no more than cmd.Grace, killTime and closeTime together.
//
// A writer that fails (a closed pipe, a full disk) ends the command with SIGPIPE, as in a pipeline,
// and its error is returned. No write to cmd.Stdout or cmd.Stderr begins after Exec has returned.
func Exec(ctx context.Context, client *ssh.Client, cmd Command) (Status, error) {
	s, err := newSession(ctx, client, "session", nil, cmd)
	if err != nil {
		return Status{}, err
	}
	if err := s.start(ctx); err != nil {
		s.ch.Close()
		return Status{}, err
	}
	s.copyStreams(true)
	return s.wait(ctx)
}

// newSession opens a channel for a command. Its streams are not copied yet.
func newSession(ctx context.Context, client *ssh.Client, kind string, extra []byte, cmd Command) (*session, error) {
	ch, reqs, err := OpenChannel(ctx, client, kind, extra)
	if err != nil {
		return nil, explainRefusal(err)
	}
	s := &session{cmd: cmd, ch: ch, ended: make(chan struct{}), failed: make(chan error, 2)}
	go s.listen(reqs)
	return s, nil
}

// explainRefusal turns a refused channel into an error of ours. A relay that has no connection says
// so in the refusal (noBackend), which is a lost connection to us, too.
func explainRefusal(err error) error {
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		return err
	}
	if why, ok := strings.CutPrefix(refused.Message, noBackend); ok {
		return connectionLostError(errors.New(why))
	}
	return agentbox.Errorf(agentbox.Unavailable, "the box refused to run a command: %.*s", maxComplaint, refused.Message)
}

// session is one running command. Only listen receives its requests; two goroutines copy its
// output; one may be left behind at a read from Stdin.
type session struct {
	cmd   Command
	ch    ssh.Channel
	ended chan struct{} // closed when the channel is

	// mu guards status, which is nil while it is unknown.
	mu     sync.Mutex
	status *Status

	// output counts the goroutines that copy output; muted drops what they still bring once finish
	// has given up on them.
	output sync.WaitGroup
	muted  atomic.Bool
	leaves bool       // the command is a job, which goes on when this ends
	left   bool       // nothing can end the command; the same goroutine sets and reads it
	failed chan error // writing to Stdout or Stderr failed
}

func (s *session) listen(reqs <-chan *ssh.Request) {
	defer close(s.ended)
	for req := range reqs {
		if st, ok := parseExit(req); ok {
			s.mu.Lock()
			s.status = &st
			s.mu.Unlock()
		}
		req.Reply(false, nil)
	}
}

// parseExit reads how a command ended: RFC 4254, 6.10. Codes are those of wait(2), one byte.
func parseExit(req *ssh.Request) (Status, bool) {
	switch req.Type {
	case "exit-status":
		var m struct{ Code uint32 }
		if ssh.Unmarshal(req.Payload, &m) == nil {
			return Status{Code: int(m.Code & 0xff)}, true
		}
	case "exit-signal":
		var m struct {
			Name    string
			Core    bool
			Message string
			Lang    string
		}
		if ssh.Unmarshal(req.Payload, &m) == nil {
			return killed(m.Name), true
		}
	}
	return Status{}, false
}

// start asks for the command: the exact arguments first, or a shell's command line where the server
// does not know that request. Requests without a reply are not waited for, so it takes one round
// trip.
func (s *session) start(ctx context.Context) error {
	if s.cmd.Subsystem != "" {
		return startSubsystem(ctx, s.ch, s.cmd.Subsystem)
	}
	if t := s.cmd.TTY; t != nil {
		if _, err := s.ch.SendRequest("pty-req", false, ptyRequest(t)); err != nil {
			return connectionLostError(err)
		}
	}
	// A stock server refuses this request and leaves the session as it is, so the shell's line can
	// follow.
	if payload, exact := argvRequest(s.cmd); exact {
		if ok, err := Request(ctx, s.ch, protocol.Argv, payload); ok || err != nil {
			return err
		}
	}
	line := ssh.Marshal(struct{ Command string }{shellCommand(s.cmd)})
	ok, err := Request(ctx, s.ch, "exec", line)
	if err == nil && !ok {
		err = agentbox.Errorf(agentbox.Unavailable, "the box refused to run a command")
	}
	return err
}

// argvRequest is the payload of argv@agentbox. exact is false if JSON cannot carry the command, as
// it is not UTF-8; a shell's command line can.
func argvRequest(cmd Command) (payload []byte, exact bool) {
	if !allUTF8(cmd) {
		return nil, false
	}
	argv := cmd.Argv
	if argv == nil {
		argv = []string{}
	}
	payload, err := json.Marshal(protocol.ArgvRequest{Argv: argv, Dir: cmd.Dir, Env: cmd.Env, User: cmd.User})
	return payload, err == nil
}

// allUTF8 tells whether JSON carries the command unchanged.
func allUTF8(cmd Command) bool {
	for k, v := range cmd.Env {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return false
		}
	}
	return utf8.ValidString(cmd.Dir) && !slices.ContainsFunc(cmd.Argv, func(s string) bool { return !utf8.ValidString(s) })
}

// ptyRequest is the payload of pty-req: RFC 4254, 6.2, with no modes of section 8 but the final
// TTY_OP_END. The sizes in pixels are 0, which means unknown.
func ptyRequest(t *PTY) []byte {
	term := t.Term
	if term == "" {
		term = "xterm"
	}
	return ssh.Marshal(struct {
		Term           string
		Width, Height  uint32
		WidthPx, HghPx uint32
		Modes          string
	}{term, uint32(t.Size.Width), uint32(t.Size.Height), 0, 0, "\x00"})
}

// copyStreams starts to copy, after the command has started: some servers drop what comes before.
// With endInput the end of our input, or its absence, ends the command's input.
func (s *session) copyStreams(endInput bool) {
	s.output.Go(func() { s.copyOut(s.cmd.Stdout, s.ch) })
	s.output.Go(func() { s.copyOut(s.cmd.Stderr, s.ch.Stderr()) })
	// A read from Stdin cannot be interrupted, so nobody waits for this goroutine; see Command.
	go func() {
		if s.cmd.Stdin != nil {
			pump(s.ch, s.cmd.Stdin)
		}
		if endInput {
			s.ch.CloseWrite()
		}
	}()
}

// copyOut reads to the end even if dst fails: unread output blocks the command.
func (s *session) copyOut(dst io.Writer, src io.Reader) {
	if dst != nil {
		if _, err := pump(mutable{dst, &s.muted}, src); err != nil {
			s.failed <- err
		}
	}
	pump(io.Discard, src)
}

// mutable keeps a late copy from writing after Exec has returned.
type mutable struct {
	io.Writer
	muted *atomic.Bool
}

// Write fails once finish has given up on this copy.
func (m mutable) Write(p []byte) (int, error) {
	if m.muted.Load() {
		return 0, io.ErrClosedPipe
	}
	return m.Writer.Write(p)
}

// wait passes on signals and sizes until the command or ctx ends, or nobody takes the output.
func (s *session) wait(ctx context.Context) (Status, error) {
	var resize <-chan Size
	if s.cmd.TTY != nil {
		resize = s.cmd.TTY.Resize
	}
	signals := s.cmd.Signals
	for {
		select {
		// Also when the other end closed without a status: finish tells that from a lost
		// connection.
		case <-s.ended:
			return s.finish(ctx, nil)
		case err := <-s.failed:
			if !s.leaves {
				s.signal("PIPE")
			}
			s.ch.Close()
			return s.finish(ctx, err)
		case <-ctx.Done():
			s.terminate()
			return s.finish(ctx, context.Cause(ctx))
		case sig, ok := <-signals:
			if !ok {
				signals = nil
			} else if name := signalNames[sig]; name != "" {
				s.signal(name)
			}
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			s.ch.SendRequest("window-change", false, ssh.Marshal(struct{ W, H, X, Y uint32 }{uint32(size.Width), uint32(size.Height), 0, 0}))
		}
	}
}

// signal ignores errors: one that cannot be sent means that the channel has closed.
func (s *session) signal(name string) {
	s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Name string }{name}))
}

// terminate ends the command as Command.Grace says. A job is only left: it goes on. So is a command of
// a server that sends it no signal, as OpenSSH's does to none of root's: waiting would not end it.
func (s *session) terminate() {
	if s.leaves {
		s.ch.Close()
		return
	}
	grace := s.cmd.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	refused := make(chan struct{})
	go func() {
		if ok, err := s.ch.SendRequest("signal", true, ssh.Marshal(struct{ Name string }{"TERM"})); !ok && err == nil {
			close(refused)
		}
	}()
	select {
	case <-s.ended:
		return
	case <-refused:
		s.left = true
		s.ch.Close()
		return
	case <-time.After(grace):
	}
	s.signal("KILL")
	select {
	case <-s.ended:
	case <-time.After(killTime):
	}
	s.ch.Close()
}

// killTime is how long the other end may take to report a kill before the channel is closed.
const killTime = 10 * time.Second

// finish collects the rest of the output. cause is nil if the command ended on its own. With a
// cause it waits only as long as a living server needs to close a channel. It returns the status
// even with a cause, if it is known.
func (s *session) finish(ctx context.Context, cause error) (Status, error) {
	done := make(chan struct{})
	go func() {
		<-s.ended
		s.output.Wait()
		close(done)
	}()
	// The command has ended: its output is still on its way, and all of it is wanted.
	if cause == nil {
		select {
		case <-done:
		case cause = <-s.failed:
		case <-ctx.Done():
			cause = context.Cause(ctx)
		}
	}
	// Nobody wants the rest any more, but the writers must be left alone before this returns.
	if cause != nil {
		wait := closeTime
		if s.left {
			wait = 0
		}
		select {
		case <-done:
		case <-time.After(wait):
			s.muted.Store(true)
		}
	}
	s.ch.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.status != nil:
		return *s.status, cause
	case cause != nil:
		return Status{}, cause
	}
	return Status{}, connectionLostError(errNoStatus)
}

// closeTime is how long a living server may take to answer a closed channel.
const closeTime = 10 * time.Second

var errNoStatus = errors.New("it ended before the command did")
