package job

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/vmm/guest/protocol"
)

// guest is a machine's end of the connection, which starts whatever it is asked to start. It tells
// opened of each job, and lists the jobs in known, or refuses to list any where that is empty.
func guest(t *testing.T, opened chan<- struct{}, known string) *ssh.Client {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		config := &ssh.ServerConfig{NoClientAuth: true}
		config.AddHostKey(signer)
		server, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			for r := range requests {
				_ = r.Reply(r.Type == protocol.Jobs && known != "", []byte(known))
			}
		}()
		for nch := range channels {
			ch, reqs, err := nch.Accept()
			if err != nil {
				return
			}
			go ssh.DiscardRequests(reqs)
			opened <- struct{}{}
			defer ch.Close()
		}
	}()
	client, err := ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(signer.PublicKey())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func newHub(t *testing.T, backend func(ctx context.Context) (*ssh.Client, error)) *Hub {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	h := NewHub(ctx, Config{
		Dir: t.TempDir(), Backend: backend, Log: slog.New(slog.DiscardHandler), OnBegin: func() func() { return func() {} }, OnOutput: func() {},
	})
	if err := h.Adopt(ctx, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); h.Wait() })
	return h
}

// A daemon is killed while a job of its is being started, and its call ends. The next daemon finds
// the job's record, and waits for the job: it has to run.
func TestStartSurvivesCaller(t *testing.T) {
	opened := make(chan struct{}, 8)
	client := guest(t, opened, "[]")
	asked, ready := make(chan struct{}, 8), make(chan struct{})
	h := newHub(t, func(ctx context.Context) (*ssh.Client, error) {
		asked <- struct{}{}
		select {
		case <-ready:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	spec := agentbox.JobSpec{ID: agentbox.NewJobID(), JobSpec: protocol.JobSpec{Argv: []string{"true"}}}
	ctx, gone := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := h.Start(ctx, spec); first <- err }()
	<-asked
	gone()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	found, looked := make(chan *followedJob, 1), make(chan struct{})
	go func() { close(looked); found <- h.started(t.Context(), spec.ID) }()
	<-looked
	if given := h.started(ctx, spec.ID); given != nil { // who asks has gone
		t.Error("it is there before it was started")
	}
	close(ready)
	select {
	case <-opened:
	case <-time.After(5 * time.Minute):
		t.Fatal("the guest is not asked to start it")
	}
	if refused, err := h.Start(t.Context(), spec); refused != nil || err != nil { // the next daemon's
		t.Fatal(refused, err)
	}
	if h.job(spec.ID) == nil || <-found == nil {
		t.Error("it is not known")
	}
	select {
	case <-opened:
		t.Error("it was started twice")
	default:
	}
}

// Every caller of a hub that has ended gets an error, and not only the first.
func TestStartAfterEnd(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	h := NewHub(ctx, Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err := h.Adopt(ctx, false); err != nil {
		t.Fatal(err)
	}
	stop()
	h.Wait()
	ctx, stop = context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	for range 2 {
		if _, err := h.Start(ctx, agentbox.JobSpec{ID: agentbox.NewJobID()}); agentbox.CodeOf(err) != agentbox.Unavailable {
			t.Fatal(err)
		}
	}
}

// A job whose start failed is lost where the guest does not know it, and goes on where it does.
func TestResolveFailedStart(t *testing.T) {
	id := agentbox.NewJobID()
	for known, runs := range map[string]bool{`[]`: false, `[{"id":"` + id.String() + `"}]`: true} {
		opened := make(chan struct{}, 8)
		client := guest(t, opened, known)
		failed := false
		h := newHub(t, func(context.Context) (*ssh.Client, error) {
			if !failed {
				failed = true
				return nil, errors.New("the connection broke")
			}
			return client, nil
		})
		_, err := h.Start(t.Context(), agentbox.JobSpec{ID: id, JobSpec: protocol.JobSpec{Argv: []string{"true"}}})
		if (err == nil) != runs || (h.job(id) != nil) != runs {
			t.Errorf("%s: %v", known, err)
		}
		box := agentbox.Box{State: agentbox.Running}
		want := map[bool]agentbox.JobState{false: agentbox.JobLost, true: agentbox.JobRunning}[runs]
		if all := List(h.Dir, box); len(all) != 1 || all[0].State != want {
			t.Errorf("%s: %+v", known, all)
		}
	}
}
