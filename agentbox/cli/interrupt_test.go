package cli

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// raise sends an interrupt to this process, as the terminal does.
func raise(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Error(err)
	}
}

// An interrupt must cancel a run that only waits for the end of its task. If the daemon does not
// answer to that, a second interrupt must end the wait.
func TestInterruptWhileWaitingForTask(t *testing.T) {
	id := agentbox.NewTaskID()
	held, cancelled := make(chan struct{}), make(chan struct{}, 8)
	fakeDaemon(t, func(mux *http.ServeMux) {
		serve(mux, api.RunTask, api.TaskStarted{Task: agentbox.Task{ID: id}})
		api.Handle(mux, api.HoldTask, func(ctx context.Context, _ api.TaskRef, _ agentbox.Progress) (agentbox.Task, error) {
			close(held)
			<-ctx.Done()
			return agentbox.Task{}, ctx.Err()
		})
		api.Handle(mux, api.CancelTask, func(context.Context, api.TaskRef, agentbox.Progress) (agentbox.Task, error) {
			cancelled <- struct{}{}
			return agentbox.Task{}, nil
		})
	})
	go func() {
		<-held
		raise(t)
		<-cancelled
		raise(t)
	}()
	code, _, stderr := runProgram(t, "run", "--", "true")
	if code != exitFailed || !strings.Contains(stderr, "interrupted") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// An interrupt must end the command while it connects to a box, which may not answer for a minute.
func TestInterruptWhileConnecting(t *testing.T) {
	h := fakeDaemon(t, func(*http.ServeMux) {})
	c := silentBox(t, h)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		c.accepted()
		interrupt()
	}()
	a := &app{here: here(t), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	if err := a.runIn(ctx, c.Connection, run{argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An interrupt must end the wait for an older daemon that does not exit.
func TestInterruptWhileWaitingForDaemon(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	fakeDaemon(t, func(mux *http.ServeMux) {
		api.Handle(mux, api.Shutdown, func(context.Context, api.None, agentbox.Progress) (api.None, error) {
			interrupt()
			return api.None{}, nil
		})
	})
	if err := here(t).Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// silentConnection leads to a box whose socket accepts connections and never answers.
type silentConnection struct {
	api.Connection
	accepted func()
}

func silentBox(t *testing.T, h home.Home) silentConnection {
	t.Helper()
	key, known := sshKeys(t)
	names := h.Box(agentbox.BoxID{})
	err := os.MkdirAll(names.Run, 0o700)
	l, listenErr := net.Listen("unix", names.SSH())
	if err := errors.Join(err, listenErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return silentConnection{
		api.Connection{Name: "silent", Key: key, HostKey: known, User: "agent"},
		func() {
			if conn, err := l.Accept(); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		},
	}
}

// sshKeys returns a key, and a known_hosts line with it.
func sshKeys(t *testing.T) (key, known string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), "agentbox " + string(ssh.MarshalAuthorizedKey(host))
}
