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
	c := silentBox(t, h.Dir)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		c.accepted()
		interrupt()
	}()
	a := &app{home: h, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	if err := a.runIn(ctx, c.Connection, run{argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An interrupt must end the wait for an older daemon that does not exit.
func TestInterruptWhileWaitingForDaemon(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	h := fakeDaemon(t, func(mux *http.ServeMux) {
		api.Handle(mux, api.Shutdown, func(context.Context, api.None, agentbox.Progress) (api.None, error) { return api.None{}, nil })
	})
	client := api.NewClient(h.Socket())
	defer client.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- (&app{home: h}).stopDaemon(ctx, client, os.Getpid()) }()
	interrupt()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// silentConnection leads to a box whose socket accepts connections and never answers.
type silentConnection struct {
	api.Connection
	accepted func()
}

func silentBox(t *testing.T, dir string) silentConnection {
	t.Helper()
	key, known := sshKeys(t, dir)
	l, err := net.Listen("unix", dir+"/box.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return silentConnection{
		api.Connection{Name: "silent", Socket: dir + "/box.sock", Key: key, KnownHosts: known, User: "agent"},
		func() {
			if conn, err := l.Accept(); err == nil {
				t.Cleanup(func() { conn.Close() })
			}
		},
	}
}

// sshKeys writes a key, and a known_hosts line with it, into a directory.
func sshKeys(t *testing.T, dir string) (key, known string) {
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
	key, known = dir+"/key", dir+"/known"
	for name, text := range map[string][]byte{key: pem.EncodeToMemory(block), known: []byte("agentbox " + string(ssh.MarshalAuthorizedKey(host)))} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return key, known
}
