package cachestore

import (
	"context"
	"errors"
	"sync"

	"agentbox/agentbox"
)

// flights lets those who want the same thing at the same time share one way of getting it.
type flights struct {
	mu  sync.Mutex
	now map[agentbox.Digest]*flight
}

type flight struct {
	done chan struct{}
	b    []byte
	err  error
}

func (f *flights) init() { f.now = map[agentbox.Digest]*flight{} }

// do gets d, or waits for who is getting it. The bytes are shared: nobody may change them. Who
// waits is not bound to the patience of who gets: when that one was cancelled, another takes over.
func (f *flights) do(ctx context.Context, d agentbox.Digest, get func() ([]byte, error)) ([]byte, error) {
	for {
		f.mu.Lock()
		other := f.now[d]
		if other == nil {
			mine := &flight{done: make(chan struct{})}
			f.now[d] = mine
			f.mu.Unlock()
			mine.b, mine.err = get()
			f.mu.Lock()
			delete(f.now, d)
			f.mu.Unlock()
			close(mine.done)
			return mine.b, mine.err
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-other.done:
		}
		if !errors.Is(other.err, context.Canceled) && !errors.Is(other.err, context.DeadlineExceeded) {
			return other.b, other.err
		}
	}
}
