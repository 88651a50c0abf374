package cachestore

import (
	"context"
	"runtime"
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

// newWorkers makes workers with room for a piece of work more than there are processors: one may
// wait for the disk.
func newWorkers(ctx context.Context) *workers {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0) + 1)
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

// each does work for every chunk of a list, in its order as far as there are hands. It waits for
// all of them and gives the first error.
func (c *workers) each(list []int, work func(ctx context.Context, i int) error) error {
	for _, i := range list {
		if err := c.do(func(ctx context.Context) error { return work(ctx, i) }); err != nil {
			return c.wait(err)
		}
	}
	return c.wait(nil)
}

// locked does something with the mutex of the workers held.
func (c *workers) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// buffer returns a slice of no length that has room for the largest chunk; recycle gives it back.
// Nothing may use it afterwards.
func (c *workers) buffer() []byte { return c.buffers.Get().([]byte) }

func (c *workers) recycle(b []byte) {
	c.buffers.Put(b[:0]) //lint:ignore SA6002 a slice header an item is cheap here
}

// wait returns when all work is done, with its first error, or else with the one that kept the
// caller from giving out more. Nothing may be begun after it.
func (c *workers) wait(err error) error {
	if worked := c.group.Wait(); worked != nil {
		return worked
	}
	return err
}
