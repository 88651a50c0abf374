package background

import "sync"

// Topic wakes all who wait for a change. One that nobody has used is ready.
type Topic struct {
	mu sync.Mutex
	ch chan struct{}
}

// Changed returns a channel that is closed by the next Announce. To miss nothing, ask for it before
// looking at what may change.
func (t *Topic) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ch == nil {
		t.ch = make(chan struct{})
	}
	return t.ch
}

// Announce wakes those who wait.
func (t *Topic) Announce() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ch != nil {
		close(t.ch)
		t.ch = nil
	}
}
