package environment

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// server is an SSH server that runs real commands on this machine: a guest agent in small.
type server struct {
	t       testing.TB
	hostKey ssh.Signer
	key     ssh.Signer
	noArgv  bool // as a stock server, it refuses argv@agentbox
	deaf    bool // as OpenSSH's for root, it sends no signals
	addr    string

	mu       sync.Mutex
	requests []string // types of the session requests seen, "user@agentbox=NAME" with the name
	conns    []net.Conn
	logins   []*ssh.ServerConn
	sessions atomic.Int32
}

func newKeyPair(t testing.TB) (ed25519.PrivateKey, ssh.Signer) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, s
}

func newSigner(t testing.TB) ssh.Signer {
	_, s := newKeyPair(t)
	return s
}

func startServer(t testing.TB, noArgv bool) *server {
	s := &server{t: t, hostKey: newSigner(t), key: newSigner(t), noArgv: noArgv}
	s.addr = filepath.Join(t.TempDir(), "guest.sock")
	l, err := net.Listen("unix", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			work.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); s.cut(); work.Wait() })
	return s
}

// cut drops every connection, as a machine that dies does.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
}

func (s *server) hasRequest(prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			return true
		}
	}
	return false
}

func (s *server) login() Login { return Login{User: "box", Key: s.key, HostKey: s.hostKey.PublicKey()} }

func (s *server) dial(t testing.TB) *ssh.Client {
	conn, err := net.Dial("unix", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(context.Background(), conn, s.login())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *server) serve(conn net.Conn) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(s.hostKey)
	login, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins = append(s.logins, login)
	s.mu.Unlock()
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { ssh.DiscardRequests(reqs) })
	for nch := range chans {
		switch nch.ChannelType() {
		case "session":
			ch, reqs, err := nch.Accept()
			if err == nil {
				s.sessions.Add(1)
				work.Go(func() { defer s.sessions.Add(-1); s.session(ch, reqs) })
			}
		case "direct-tcpip":
			work.Go(func() { serveTCP(nch) })
		default:
			nch.Reject(ssh.UnknownChannelType, "no")
		}
	}
}

func serveTCP(nch ssh.NewChannel) {
	var m struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}
	ssh.Unmarshal(nch.ExtraData(), &m)
	conn, err := net.Dial("tcp", net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port))))
	if err != nil {
		nch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	var copies sync.WaitGroup
	copies.Go(func() { io.Copy(conn, ch); conn.(*net.TCPConn).CloseWrite() })
	copies.Go(func() { io.Copy(ch, conn); ch.CloseWrite() })
	copies.Wait()
	ch.Close()
	conn.Close()
}

func (s *server) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	defer ch.Close()
	var cmd *exec.Cmd
	done := make(chan struct{})
	finish := func() { close(done) }
	for {
		select {
		case <-done:
			return
		case req, ok := <-reqs:
			if !ok {
				if cmd != nil && cmd.Process != nil {
					syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
					<-done
				}
				return
			}
			s.note(req)
			switch req.Type {
			case "argv@agentbox", "exec", "shell":
				if c := s.command(req); c != nil && cmd == nil {
					cmd = c
					err := start(cmd, ch)
					req.Reply(true, nil)
					go func() { wait(cmd, err, ch); finish() }()
					continue
				}
				req.Reply(false, nil)
			case "subsystem":
				req.Reply(true, nil)
				srv, _ := sftp.NewServer(ch)
				go func() {
					srv.Serve()
					ch.CloseWrite()
					ch.SendRequest("exit-status", false, ssh.Marshal(struct{ C uint32 }{0}))
					finish()
				}()
			case "signal":
				var m struct{ Name string }
				ssh.Unmarshal(req.Payload, &m)
				req.Reply(!s.deaf, nil)
				if s.deaf {
					continue
				}
				if cmd != nil && cmd.Process != nil {
					syscall.Kill(-cmd.Process.Pid, syscall.Signal(signalNumbers[m.Name]))
				}
			default:
				req.Reply(true, nil)
			}
		}
	}
}

func (s *server) note(req *ssh.Request) {
	name := req.Type
	if name == "user@agentbox" {
		var m struct{ Name string }
		ssh.Unmarshal(req.Payload, &m)
		name += "=" + m.Name
	}
	s.mu.Lock()
	s.requests = append(s.requests, name)
	s.mu.Unlock()
}

func (s *server) command(req *ssh.Request) *exec.Cmd {
	switch {
	case req.Type == "argv@agentbox" && !s.noArgv:
		var m struct {
			Argv []string
			Dir  string
			Env  map[string]string
		}
		if json.Unmarshal(req.Payload, &m) != nil {
			return nil
		}
		if len(m.Argv) == 0 {
			m.Argv = []string{"sh"}
		}
		cmd := exec.Command(m.Argv[0], m.Argv[1:]...)
		cmd.Dir, cmd.Env = m.Dir, os.Environ()
		for k, v := range m.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		return cmd
	case req.Type == "exec":
		var m struct{ Line string }
		ssh.Unmarshal(req.Payload, &m)
		return exec.Command("sh", "-c", m.Line)
	case req.Type == "shell":
		return exec.Command("sh")
	}
	return nil
}

func start(cmd *exec.Cmd, ch ssh.Channel) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	cmd.WaitDelay = time.Minute
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { io.Copy(in, ch); in.Close() }()
	return nil
}

func wait(cmd *exec.Cmd, err error, ch ssh.Channel) {
	if err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		ch.CloseWrite()
		ch.SendRequest("exit-status", false, ssh.Marshal(struct{ C uint32 }{127}))
		return
	}
	var exit *exec.ExitError
	code := uint32(0)
	if errors.As(cmd.Wait(), &exit) {
		ws := exit.Sys().(syscall.WaitStatus)
		code = uint32(ws.ExitStatus())
		if ws.Signaled() {
			for name, n := range signalNumbers {
				if n == int(ws.Signal()) {
					ch.CloseWrite()
					ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
						Name string
						Core bool
						A, B string
					}{Name: name}))
					return
				}
			}
		}
	}
	// As sshd does when a grandchild holds the output open: the status may come before the end of
	// file.
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ C uint32 }{code}))
	ch.CloseWrite()
}

// startRelay puts a relay before a backend and returns its socket.
func startRelay(t testing.TB, s *server, backend Backend) string {
	path := filepath.Join(t.TempDir(), "relay.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRelay(s.hostKey, s.key.PublicKey(), backend, discardLog())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(5 * time.Minute):
			t.Error("the relay did not end with its context")
		}
	})
	return path
}

func dialRelay(t testing.TB, path string, login Login) *ssh.Client {
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(context.Background(), conn, login)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
