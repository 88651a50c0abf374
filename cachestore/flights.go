package cachestore

import (
	"context"
	"sync"
)

// flights lets concurrent callers of one key share the call that gets it.
// golang.org/x/sync/singleflight would return the first caller's error to all, even if only that
// caller was cancelled.
type flights[K comparable] struct {
	// shared reports whether an error is the error of all callers. After any other error, each
	// caller tries on its own. nil shares no error.
	shared func(error) bool
	mu     sync.Mutex
	now    map[K]*flight
}

// flight is a call under way. b and err are set when done is closed.
type flight struct {
	done chan struct{}
	b    []byte
	err  error
}

// do calls get for k, or waits for the call under way. The bytes are shared and must not be
// changed. A waiting caller depends on its own ctx only, not on that of the caller whose get runs.
func (f *flights[K]) do(ctx context.Context, k K, get func() ([]byte, error)) ([]byte, error) {
	for {
		other, first := f.join(k)
		if first {
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

// join returns the flight under way. If there is none it starts one, and first is true: the caller
// must complete it.
func (f *flights[K]) join(k K) (_ *flight, first bool) {
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
