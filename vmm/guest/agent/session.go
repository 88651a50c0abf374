//go:build linux

package agent

import (
	"encoding/json"
	"maps"
	"path"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/capture"
	"agentbox/vmm/guest/protocol"
)

// session is one SSH session channel: settings first, then one command. The goroutine of serve owns
// it. The fields that run sets may be read after launched was closed.
type session struct {
	conn *connection
	ch   ssh.Channel
	user string // user name; resolved when the command starts, since Attach may name another user
	env  map[string]string
	pty  *pty

	launched chan struct{} // nil until a command was accepted; closed when it runs or was refused
	process  *process      // nil if the command was refused
}

// hangupGrace is how long a command has after SIGHUP when its client is gone.
const hangupGrace = 3 * time.Second

// serve answers the channel's requests until the client closes it or the life ends. A command goes
// on without a client when the life ended, and is hung up when the client closed the channel.
//
// A command may have to wait for minutes before it starts. A terminal is resized meanwhile: the SSH
// library reads nothing more of the whole connection once some requests of one channel pile up.
func (s *session) serve(requests <-chan *ssh.Request) {
	for req := range requests {
		switch {
		case startsCommand(req.Type):
			s.command(req)
			continue
		// Replies have to come in the order of their requests.
		case s.launched != nil && (req.Type != "window-change" || req.WantReply):
			<-s.launched
		}
		ok := s.applySetting(req)
		if req.WantReply {
			req.Reply(ok, nil) // an error means that the channel is closed, which ends the loop
		}
	}
	if s.launched != nil {
		<-s.launched
	}
	switch {
	// No command ever ran, so nobody else closes the terminal.
	case s.process == nil:
		s.pty.close()
		s.ch.Close()
	case !s.conn.life.ended.Load():
		s.hangup()
	}
}

func startsCommand(request string) bool {
	return request == "exec" || request == "shell" || request == "subsystem" || request == protocol.Argv
}

// hangup sends SIGHUP, and SIGKILL after hangupGrace.
func (s *session) hangup() {
	a, p := s.conn.agent, s.process
	a.spawner.signal(p, syscall.SIGHUP)
	t := time.NewTimer(hangupGrace)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		a.spawner.signal(p, syscall.SIGKILL)
	}
}

// applySetting answers a request that starts nothing, and returns false to refuse it. Only
// window-change and signal are accepted once there is a command.
func (s *session) applySetting(req *ssh.Request) bool {
	switch req.Type {
	case "env":
		var v struct{ Name, Value string }
		if ssh.Unmarshal(req.Payload, &v) != nil || v.Name == "" || s.launched != nil {
			return false
		}
		s.env[v.Name] = v.Value
		return true
	case protocol.UserRequest:
		var v struct{ Name string }
		if ssh.Unmarshal(req.Payload, &v) != nil || s.launched != nil {
			return false
		}
		s.user = v.Name
		return true
	case "pty-req":
		return s.launched == nil && s.openPTY(req.Payload)
	case "window-change":
		return s.pty.change(req.Payload)
	case "signal":
		return s.conn.agent.signal(s.process, req.Payload)
	}
	return false
}

// command starts what an exec, shell, subsystem or argv request asks for, and answers it. It does
// not wait for the start. A session runs one command; a second request is refused.
func (s *session) command(req *ssh.Request) {
	c, ok := s.parse(req)
	if !ok || s.launched != nil {
		req.Reply(false, nil) // an error means that the channel is closed
		return
	}
	s.launched = make(chan struct{})
	s.conn.agent.goRecover("command", func() {
		defer close(s.launched)
		s.run(c, func() {
			if req.WantReply {
				req.Reply(true, nil)
			}
		})
	})
}

// parse makes a command of a request. It returns false for a malformed request or an unknown
// subsystem. Any other reason why it cannot run is in c.refused, which the client is told as text.
func (s *session) parse(req *ssh.Request) (command, bool) {
	c := command{env: s.env}
	c.user, c.refused = s.conn.agent.userNamed(s.user)
	switch req.Type {
	case "shell":
		c.login = true
	// A command line is for the user's own shell, as sshd does it.
	case "exec":
		var v struct{ Command string }
		if ssh.Unmarshal(req.Payload, &v) != nil {
			return c, false
		}
		c.path, c.argv = c.user.Shell, []string{path.Base(c.user.Shell), "-c", v.Command}
	case "subsystem":
		var v struct{ Name string }
		if ssh.Unmarshal(req.Payload, &v) != nil {
			return c, false
		}
		switch v.Name {
		case "sftp":
			c.path, c.argv, c.dir = selfExe, []string{SFTPName}, c.user.Home
		case protocol.WatchSubsystem:
			c.path, c.argv, c.dir = selfExe, []string{WatchName}, "/"
		case protocol.ExportSubsystem:
			c.user, c.refused = s.conn.agent.userNamed("root")
			c.path, c.argv, c.dir = selfExe, []string{ExportName}, "/"
		default:
			return c, false
		}
	case protocol.Argv:
		var v protocol.ArgvRequest
		if json.Unmarshal(req.Payload, &v) != nil {
			return c, false
		}
		if v.User != "" {
			c.user, c.refused = s.conn.agent.userNamed(v.User)
		}
		maps.Copy(c.env, v.Env)
		c.argv, c.dir, c.login = v.Argv, v.Dir, len(v.Argv) == 0
		if !c.login && (v.Argv[0] == capture.Name || v.Argv[0] == capture.TakeName) {
			c.path = selfExe
		}
	}
	if c.login {
		c.path, c.argv = c.user.Shell, []string{"-" + path.Base(c.user.Shell)}
	}
	return c, true
}

// signals are those of RFC 4254 and some more, by their names in SSH, without SIG.
var signals = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP, "ILL": syscall.SIGILL,
	"INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE, "QUIT": syscall.SIGQUIT,
	"SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "TSTP": syscall.SIGTSTP, "WINCH": syscall.SIGWINCH,
	"BUS": syscall.SIGBUS, "TRAP": syscall.SIGTRAP, "SYS": syscall.SIGSYS, "XCPU": syscall.SIGXCPU, "XFSZ": syscall.SIGXFSZ,
}

// signal answers a request for a signal. p is nil before there is a process.
func (a *Agent) signal(p *process, payload []byte) bool {
	var v struct{ Name string }
	if p == nil || ssh.Unmarshal(payload, &v) != nil {
		return false
	}
	sig, known := signals[v.Name]
	if known {
		a.spawner.signal(p, sig)
	}
	return known
}

// signalName is a signal's name in exit-signal; KILL for one that has none there.
func signalName(sig syscall.Signal) string {
	for name, s := range signals {
		if s == sig {
			return name
		}
	}
	return "KILL"
}
