package cachestore

import (
	"context"
	"io"
	"sync"
	"time"
)

// rateLimiter limits the rate of all goroutines that share it: bytes are due at start plus their
// sum over the rate, so lost time is made up for.
type rateLimiter struct {
	mu sync.Mutex
	// rate is in bytes per second; 0 or less means no limit.
	rate  int64
	start time.Time
	done  int64
}

// wait waits until n more bytes are due.
func (r *rateLimiter) wait(ctx context.Context, n int64) error {
	if r.rate <= 0 {
		return context.Cause(ctx)
	}
	r.mu.Lock()
	r.done += n
	due := r.start.Add(time.Duration(float64(r.done) / float64(r.rate) * float64(time.Second)))
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(due)):
		return nil
	}
}

// LimitRate limits reads of r to rate bytes per second, 0 for no limit, until ctx ends. It waits
// after each read, so the first read is not delayed. The Reader is not safe for concurrent use.
func LimitRate(ctx context.Context, r io.Reader, rate int64) io.Reader {
	return &limitedReader{ctx: ctx, r: r, pace: rateLimiter{rate: rate, start: time.Now()}}
}

type limitedReader struct {
	ctx  context.Context
	r    io.Reader
	pace rateLimiter
}

func (l *limitedReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if waited := l.pace.wait(l.ctx, int64(n)); waited != nil {
		err = waited
	}
	return n, err
}
