// Package background runs what goes on beside something and ends with it: a Group is the goroutines
// of what is open, Pipe two that hand something on, a Signal wakes one. It knows nothing of what they
// do, and does not end a Group's.
package background

import "sync"

// Group is goroutines that end before what they work for does. The zero Group is open. Unlike with
// a sync.WaitGroup, others may want to begin something while Close waits, as a caller that dials on
// a connection that is just ending: it does not begin then.
type Group struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Go begins f in a goroutine of its own. It is false after Close, and f is not called.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(f)
	}
	return !g.closed
}

// Close waits until everything that was begun has ended, and lets nothing more begin. The caller
// has told the goroutines to end. It may be called more than once.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
