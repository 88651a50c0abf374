//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"agentbox/vmm/guest/protocol"
)

// Config is what an agent needs to serve.
type Config struct {
	Machine Machine      // what it may do to the machine
	User    User         // the box's user
	Log     *slog.Logger // the console
	PID1    bool         // reap every orphan
	// Open opens the stream to the host. It is called again whenever the stream ends: a port reads EOF while no host
	// is connected, a socket when the host's end was replaced.
	Open func(context.Context) (io.ReadWriteCloser, error)
}

// Agent serves one life after the other until its context ends.
type Agent struct {
	Config
	spawner *spawner
	work    sync.WaitGroup // every goroutine the agent starts but the reaper

	ending context.Context // over when the agent ends
	end    context.CancelFunc

	box     box      // what the box was given by Attach
	manager services // of the box
}

// New makes an agent that does nothing yet.
func New(c Config) *Agent {
	a := &Agent{Config: c, spawner: newSpawner(c.PID1)}
	a.ending, a.end = context.WithCancel(context.Background())
	a.manager.agent = a
	return a
}

// How long the agent waits before it opens a stream again that ended at once.
const (
	minReopen = 2 * time.Millisecond
	maxReopen = 50 * time.Millisecond
)

// Serve opens the stream and serves lives until ctx ends. When it returns, no user process is left that it started
// and no goroutine either.
func (a *Agent) Serve(ctx context.Context) error {
	wait := minReopen
	for ctx.Err() == nil {
		stream, err := a.Open(ctx)
		if err == nil {
			began := time.Now()
			a.serveStream(ctx, stream)
			stream.Close()
			if time.Since(began) > maxReopen {
				wait = minReopen
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, maxReopen)
	}
	a.end()
	a.manager.cancel()
	a.Machine.KillUser()
	if err := a.Machine.ThawUser(); err != nil {
		a.Log.Error("continue user processes", "err", err)
	}
	a.spawner.killAll()
	a.work.Wait()
	return ctx.Err()
}

// serveStream reads the stream to its end, and hands what it reads to the life it belongs to.
func (a *Agent) serveStream(ctx context.Context, stream io.ReadWriteCloser) {
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	out := &output{w: stream}
	var current *life
	end := func() {
		if current != nil {
			current.end()
			current = nil
		}
	}
	defer end()
	scanner := protocol.Scanner{
		Data: func(b []byte) {
			if current != nil {
				current.put(b)
			}
		},
		Begin: func(line []byte) {
			end()
			current = a.begin(out, line)
		},
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := stream.Read(buf)
		scanner.Feed(buf[:n])
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				a.Log.Warn("the stream to the host ended", "err", err)
			}
			return
		}
	}
}

// begin answers a Hello and starts the SSH server of the life it begins. It returns nil when there is no life to go on
// with: the host kills the machine then.
func (a *Agent) begin(out *output, line []byte) *life {
	hello, err := protocol.ParseHello(line)
	if err != nil {
		a.Log.Error("bad hello", "err", err)
	}
	var server *server
	if err == nil {
		server, err = a.prepare(hello)
	}
	ready := protocol.Ready{Version: protocol.Version, Token: hello.Token, Kernel: a.Machine.Kernel}
	if err != nil {
		ready.Error = err.Error()
	}
	answer, err := protocol.AppendLife(nil, ready)
	if err != nil {
		a.Log.Error("cannot answer hello", "err", err)
		return nil
	}
	out.mu.Lock()
	_, err = out.w.Write(answer)
	out.mu.Unlock()
	if err != nil || ready.Error != "" {
		a.Log.Error("life did not begin", "err", err, "reason", ready.Error)
		return nil
	}
	l := newLife(out)
	a.goDo("ssh", func() { server.serve(l) })
	return l
}

// prepare makes the machine and the SSH server ready for a life, at the same time: the server's keys come with the
// hello and need no random numbers of the machine.
func (a *Agent) prepare(hello protocol.Hello) (*server, error) {
	type made struct {
		server *server
		err    error
	}
	got := make(chan made, 1)
	a.goDo("keys", func() {
		defer close(got)
		s, err := newServer(a, hello)
		got <- made{s, err}
	})
	if err := a.renew(hello); err != nil {
		return nil, err
	}
	if hello.Mount {
		a.goDo("mount", func() { a.Machine.Mount() }) // Attach mounts again, and learns what went wrong
	}
	m, ok := <-got
	if !ok {
		return nil, errors.New("the SSH server could not be made")
	}
	return m.server, m.err
}

// renew makes this machine another one than its twins before any user process runs: first the random numbers, since
// everything that follows draws them.
func (a *Agent) renew(h protocol.Hello) error {
	m := a.Machine
	steps := []struct {
		what string
		do   func() error
	}{
		{"stop user processes", m.FreezeUser},
		{"reseed random numbers", func() error { return m.AddEntropy(h.Entropy) }},
		{"set the clock", func() error { return m.SetClock(h.Time) }},
		{"set the hostname", func() error { return m.SetHostname(h.Hostname) }},
		{"set the machine id", func() error { return m.SetMachineID(h.MachineID) }},
		{"continue user processes", m.ThawUser},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// goDo runs f as one of the agent's goroutines. PID 1 must outlive a bug in it, so a panic is logged and ends f only.
func (a *Agent) goDo(what string, f func()) {
	a.work.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				a.Log.Error("panic", "in", what, "value", v, "stack", string(debug.Stack()))
			}
		}()
		f()
	})
}
