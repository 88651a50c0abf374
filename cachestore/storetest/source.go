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

// TestSource reports whether a Source keeps its word (cachestore.Source). with makes one that has
// the given pieces and no others.
func TestSource(t *testing.T, with func(t *testing.T, pieces [][]byte) cachestore.Source) {
	small, large := []byte("small"), bytes.Repeat([]byte("large "), 100_000)
	src := with(t, [][]byte{small, large})
	t.Run("what it has", func(t *testing.T) {
		for _, p := range [][]byte{small, large} {
			got, err := src.Get(t.Context(), blob.Sum(p), len(p))
			if err != nil || !bytes.Equal(got, p) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
	})
	t.Run("what it has not", func(t *testing.T) {
		if _, err := src.Get(t.Context(), blob.Sum([]byte("nowhere")), 100); agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("code %s: %v", agentbox.CodeOf(err), err)
		}
	})
	t.Run("more than was asked for", func(t *testing.T) {
		if got, err := src.Get(t.Context(), blob.Sum(large), 100); err == nil {
			t.Errorf("%d bytes where at most 100 were asked for", len(got))
		}
	})
	t.Run("many at once", func(t *testing.T) {
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

// Slow is a Source behind a link of so many bytes a second, with Delay before each answer. All
// requests share the link, one after the other, as they share a cable. Fail, which may be nil, is
// asked first: an error of its is the answer, and it may block until ctx ends.
type Slow struct {
	cachestore.Source
	Rate  int64 // bytes a second; 0: no limit
	Delay time.Duration
	Fail  func(ctx context.Context, d agentbox.Digest) error

	// mu guards what follows: when the link is free again, and what went over it.
	mu   sync.Mutex
	free time.Time // when the link is free again
	n    int64
}

// Get waits as long as the link would.
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

// queue puts n bytes on the link and tells how long it takes until they are through.
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

// Bytes counts what went over the link.
func (s *Slow) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}
