//go:build linux

package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"agentbox/vmm/guest/protocol"
)

// Config is what an agent needs to serve. All of it but PID1 must be set.
type Config struct {
	Machine Machine      // what it may do to the machine
	User    User         // the box's user
	Log     *slog.Logger // the console
	PID1    bool         // reap every orphan
	// Open opens the stream to the host. It is called again whenever the stream ends: a port reads
	// EOF while no host is connected, a socket when the host's end was replaced.
	Open func(context.Context) (io.ReadWriteCloser, error)
}

// Agent serves one life after the other until its context ends. What a life starts (services, jobs,
// mounts) belongs to the Agent and outlives it.
type Agent struct {
	Config
	spawner *spawner
	work    sync.WaitGroup // every goroutine the agent starts but the reaper

	ending context.Context // over when the agent ends
	end    context.CancelFunc

	// Of the present life. Only the goroutine that reads the stream uses it.
	greeting *greeting
	box      box      // what the box was given by Attach
	manager  services // of the box
	// While a job starts its lock is held, so it comes before all other locks of the agent.
	jobs  jobs // of the box
	first firstStart
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

// Serve opens the stream and serves lives until ctx ends. When it returns, no process that it
// started runs, and none of its goroutines. It is called once.
//
// A stream that ends is opened again, after a pause that grows up to maxReopen: a host may come
// back at any time, and a port without one reads EOF at once.
func (a *Agent) Serve(ctx context.Context) error {
	wait := minReopen
	for ctx.Err() == nil {
		stream, err := a.Open(ctx)
		if err == nil {
			began := time.Now()
			a.serveStream(ctx, stream)
			stream.Close()
			// A stream that lasted was a host; one that ended at once is a port without any.
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
	// In this order: nothing starts again, all that runs is killed, and starts that wait for a thaw
	// go on and end.
	a.manager.cancel()
	a.Machine.KillUser()
	if err := a.Machine.ThawUser(); err != nil {
		a.Log.Error("continue user processes", "err", err)
	}
	a.spawner.close()
	a.work.Wait()
	return ctx.Err()
}

// serveStream reads the stream to its end and passes the bytes on to the life that they belong to.
// It is the only reader.
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
				current.deliver(b)
			}
		},
		Begin: func(line []byte) {
			end()
			current = a.begin(out, line)
		},
	}
	heard := a.restLater()
	buf := make([]byte, 32<<10)
	for {
		n, err := stream.Read(buf)
		heard()
		scanner.Feed(buf[:n])
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				a.Log.Warn("the stream to the host ended", "err", err)
			}
			return
		}
	}
}

// restAfter is longer than what a command says between two words, and a start.
const restAfter = time.Second

// restLater lets the machine rest whenever the function that it returns has not been called for restAfter.
func (a *Agent) restLater() (heard func()) {
	if a.Machine.Rest == nil {
		return func() {}
	}
	timer := time.AfterFunc(restAfter, a.Machine.Rest)
	return func() { timer.Reset(restAfter) }
}

// goRecover runs f as one of the agent's goroutines, called what in the log. A panic is logged and
// ends f only, since PID 1 must outlive a bug. Serve waits for all of them, so each has to end with
// the agent.
func (a *Agent) goRecover(what string, f func()) {
	a.work.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				a.Log.Error("panic", "in", what, "value", v, "stack", string(debug.Stack()))
			}
		}()
		f()
	})
}
