// Package background runs goroutines that belong to something and end with it: a Group is the
// goroutines of an open object, Pipe connects two, a Signal wakes one, Sleep pauses one. It does
// not know what they do, and does not tell those of a Group to end.
package background

import "sync"

// Group is goroutines that end before their owner does. The zero Group is open. Unlike with a
// sync.WaitGroup, others may try to start a goroutine while Close waits, such as a caller that
// dials on a connection that is just closing: it is then not started.
type Group struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Go starts f in a goroutine. After Close it returns false and does not call f.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(f)
	}
	return !g.closed
}

// Close starts nothing more and waits until every goroutine has ended; the caller has told them to.
// It may be called more than once.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
