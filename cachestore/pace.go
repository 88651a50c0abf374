package cachestore

import (
	"context"
	"io"
	"sync"
	"time"
)

// pace keeps a rate over all goroutines that share it: bytes are due at start plus their sum over
// the rate, so time that was lost is made up for.
type pace struct {
	mu sync.Mutex
	// rate is in bytes a second; 0 or less: no bound.
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

// Paced reads r at a rate in bytes a second, 0 for as fast as it goes, until ctx ends. It reads
// first and waits then, so the first read is not held up. The Reader is for one goroutine at a
// time.
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
