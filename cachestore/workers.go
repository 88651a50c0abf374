package cachestore

import (
	"context"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"agentbox/cachestore/blob"
)

// workers processes chunks concurrently and stops at the first error, by ending ctx. The call that
// made them also calls wait before it returns, so none outlives it. mu guards what they share.
type workers struct {
	ctx     context.Context
	group   *errgroup.Group
	mu      sync.Mutex
	buffers sync.Pool
}

// newWorkers makes one worker more than there are processors, because one may wait for the disk.
func newWorkers(ctx context.Context) *workers {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0) + 1)
	return &workers{ctx: ctx, group: group, buffers: sync.Pool{New: func() any { return make([]byte, 0, blob.MaxChunk) }}}
}

// do waits for a free worker and starts work on it. It returns an error if earlier work has failed,
// or the caller's ctx has ended. wait returns the error of work.
func (w *workers) do(work func(ctx context.Context) error) error {
	if err := w.ctx.Err(); err != nil {
		return context.Cause(w.ctx)
	}
	w.group.Go(func() error { return work(w.ctx) })
	return nil
}

// each starts work for every chunk of a list, in order, waits, and returns the first error.
func (w *workers) each(list []int, work func(ctx context.Context, i int) error) error {
	for _, i := range list {
		if err := w.do(func(ctx context.Context) error { return work(ctx, i) }); err != nil {
			return w.wait(err)
		}
	}
	return w.wait(nil)
}

// locked calls do with mu held.
func (w *workers) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// buffer returns an empty slice with room for the largest chunk. recycle returns it; the caller
// must not use it afterwards.
func (w *workers) buffer() []byte { return w.buffers.Get().([]byte) }

func (w *workers) recycle(b []byte) {
	w.buffers.Put(b[:0]) //lint:ignore SA6002 a slice header an item is cheap here
}

// wait waits for all work and returns its first error, or else err, the error that kept the caller
// from starting more. Nothing may be started after it.
func (w *workers) wait(err error) error {
	if worked := w.group.Wait(); worked != nil {
		return worked
	}
	return err
}
