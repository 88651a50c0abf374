package cachestore

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/cachestore/blob"
)

// workers works on chunks at once, a few of them, and stops at the first error: ctx ends then,
// which is what the others look at. They are owned by the call that made them, which calls wait
// before it returns, so none outlives it. mu is for what they share.
type workers struct {
	ctx     context.Context
	group   *errgroup.Group
	mu      sync.Mutex
	buffers sync.Pool
}

// newWorkers makes workers with room for n+1 pieces of work at once.
func newWorkers(ctx context.Context, n int) *workers {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n + 1)
	return &workers{ctx: ctx, group: group, buffers: sync.Pool{New: func() any { return make([]byte, 0, blob.MaxChunk) }}}
}

// do waits for a free hand and lets it work. It fails when something before has, or when the
// caller's ctx has ended; the error of work itself is wait's to give.
func (c *workers) do(work func(ctx context.Context) error) error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	c.group.Go(func() error { return work(c.ctx) })
	return nil
}

// each does work for every chunk of a list, in its order as far as there are hands, and tells how
// many are done. It waits for all of them and gives the first error. progress may be nil and is
// called by one goroutine at a time.
func (c *workers) each(list []int, progress func(done, total int), work func(ctx context.Context, i int) error) error {
	done := 0
	var err error
	for _, i := range list {
		err = c.do(func(ctx context.Context) error {
			if err := work(ctx, i); err != nil {
				return err
			}
			c.locked(func() {
				if done++; progress != nil {
					progress(done, len(list))
				}
			})
			return nil
		})
		if err != nil {
			break
		}
	}
	if waited := c.wait(); waited != nil {
		return waited
	}
	return err
}

// locked does something with the mutex of the workers held.
func (c *workers) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// buffer gives a slice of no length that has room for the largest chunk; recycle gives it back.
// Nothing may use it afterwards.
func (c *workers) buffer() []byte { return c.buffers.Get().([]byte) }

func (c *workers) recycle(b []byte) {
	c.buffers.Put(b[:0]) //lint:ignore SA6002 a slice header an item is cheap here
}

// wait returns when all work is done, with the first error. Nothing may be begun after it.
func (c *workers) wait() error { return c.group.Wait() }
