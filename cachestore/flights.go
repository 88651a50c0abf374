package cachestore

import (
	"context"
	"errors"
	"sync"

	"agentbox/agentbox"
)

// flights lets callers that want the same chunk at the same time share one way of getting it.
// golang.org/x/sync/singleflight does nearly that, but gives everybody the error of the first, also
// when only the first was cancelled.
type flights struct {
	mu  sync.Mutex
	now map[agentbox.Digest]*flight
}

// flight is a chunk that is being got. b and err are set when done is closed.
type flight struct {
	done chan struct{}
	b    []byte
	err  error
}

func (f *flights) init() { f.now = map[agentbox.Digest]*flight{} }

// do gets d, or waits for the call that is getting it. The bytes are shared: nobody may change
// them. A caller that waits is not bound to the patience of the one that gets: when that one was
// cancelled, another takes over. Any other error is everybody's.
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
