package storetest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// TestSource checks that a Source satisfies the contract of cachestore.Source.
func TestSource(t *testing.T, with NewSource) {
	small, large := []byte("small"), bytes.Repeat([]byte("large "), 100_000)
	src := with(t, [][]byte{small, large})
	t.Run("present", func(t *testing.T) {
		for _, p := range [][]byte{small, large} {
			got, err := src.Get(t.Context(), blob.Sum(p), len(p))
			if err != nil || !bytes.Equal(got, p) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
	})
	t.Run("absent", func(t *testing.T) {
		if _, err := src.Get(t.Context(), blob.Sum([]byte("nowhere")), 100); agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("code %s: %v", agentbox.CodeOf(err), err)
		}
	})
	t.Run("larger than max", func(t *testing.T) {
		if got, err := src.Get(t.Context(), blob.Sum(large), 100); err == nil {
			t.Errorf("%d bytes although max was 100", len(got))
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					if got, err := src.Get(t.Context(), blob.Sum(large), len(large)); err != nil || len(got) != len(large) {
						t.Errorf("%d bytes, %v", len(got), err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// Slow is a Source behind a simulated link. Requests share the link one after the other, as they
// share a cable. It is safe for concurrent use; its exported fields must be set before.
type Slow struct {
	cachestore.Source
	Rate  int64         // bytes per second; 0: no limit
	Delay time.Duration // before each answer, in addition
	// Fail, which may be nil, is called before each request, which fails with its error. It may
	// block until ctx ends.
	Fail func(ctx context.Context, d agentbox.Digest) error

	// mu guards the fields below it.
	mu   sync.Mutex
	free time.Time // when the link is free again
	n    int64     // bytes sent
}

// Get gets a piece from the Source at once, and returns it when the link would have delivered it.
func (s *Slow) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	if s.Fail != nil {
		if err := s.Fail(ctx, d); err != nil {
			return nil, err
		}
	}
	b, err := s.Source.Get(ctx, d, max)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.Delay + s.queue(int64(len(b)))):
		return b, nil
	}
}

// queue returns how long n bytes take on the link, behind all earlier ones.
func (s *Slow) queue(n int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n += n
	if s.Rate <= 0 {
		return 0
	}
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(float64(n) / float64(s.Rate) * float64(time.Second)))
	return time.Until(s.free)
}

// Bytes returns the number of bytes sent so far, without failed requests.
func (s *Slow) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}
