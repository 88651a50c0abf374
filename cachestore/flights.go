package cachestore

import (
	"context"
	"sync"
)

// flights lets callers that want the same thing at the same time share one way of getting it.
// golang.org/x/sync/singleflight does nearly that, but gives everybody the error of the first, also
// when only the first was cancelled.
type flights[K comparable] struct {
	// shared tells the errors that are everybody's; after another, each tries for itself. nil: none
	// is.
	shared func(error) bool
	mu     sync.Mutex
	now    map[K]*flight
}

// flight is something that is being got. b and err are set when done is closed.
type flight struct {
	done chan struct{}
	b    []byte
	err  error
}

// do gets what k names, or waits for the call that is getting it. The bytes are shared: nobody may
// change them. A caller that waits is not bound to the patience of the one that gets, only to ctx.
func (f *flights[K]) do(ctx context.Context, k K, get func() ([]byte, error)) ([]byte, error) {
	for {
		other, mine := f.board(k)
		if mine {
			other.b, other.err = get()
			f.mu.Lock()
			delete(f.now, k)
			f.mu.Unlock()
			close(other.done)
			return other.b, other.err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-other.done:
		}
		if other.err == nil || f.shared != nil && f.shared(other.err) {
			return other.b, other.err
		}
	}
}

// board gives the flight under way, or begins one, which is the caller's then.
func (f *flights[K]) board(k K) (_ *flight, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.now[k]; other != nil {
		return other, false
	}
	if f.now == nil {
		f.now = map[K]*flight{}
	}
	f.now[k] = &flight{done: make(chan struct{})}
	return f.now[k], true
}
