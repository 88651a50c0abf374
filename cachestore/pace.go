package cachestore

import (
	"context"
	"io"
	"sync"
	"time"
)

// pace limits the rate of all goroutines that share it: bytes are due at start plus their sum over
// the rate, so lost time is made up for.
type pace struct {
	mu sync.Mutex
	// rate is in bytes per second; 0 or less means no limit.
	rate  int64
	start time.Time
	done  int64
}

// wait waits until n more bytes are due.
func (p *pace) wait(ctx context.Context, n int64) error {
	if p.rate <= 0 {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	p.done += n
	due := p.start.Add(time.Duration(float64(p.done) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(due)):
		return nil
	}
}

// Paced limits reads of r to rate bytes per second, 0 for no limit, until ctx ends. It waits after
// each read, so the first read is not delayed. The Reader is not safe for concurrent use.
func Paced(ctx context.Context, r io.Reader, rate int64) io.Reader {
	return &paced{ctx: ctx, r: r, pace: pace{rate: rate, start: time.Now()}}
}

type paced struct {
	ctx  context.Context
	r    io.Reader
	pace pace
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if waited := p.pace.wait(p.ctx, int64(n)); waited != nil {
		err = waited
	}
	return n, err
}
