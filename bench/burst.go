package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// fleet is a number of fresh boxes, each of a repository of its own, made at once: the load of a
// person with many branches, or of a queue of tasks.
type fleet struct {
	lab          *Lab
	names, repos []string
	taken        []outcome // of the last boxes, that interactive has not returned yet
}

// fleet returns n boxes that are not made yet.
func (l *Lab) fleet(n int) *fleet {
	return &fleet{lab: l, names: make([]string, n), repos: make([]string, n)}
}

// burst measures until the last box's command has ended, after removing the boxes before.
func (f *fleet) burst() Scenario {
	return Scenario{
		Name: fmt.Sprintf("enter/burst-%d", len(f.names)), Ceiling: InMilliseconds(BootLimit), Setup: f.prepare,
		Measure: func(ctx context.Context) (float64, error) {
			if err := f.remove(ctx); err != nil {
				return 0, err
			}
			start := time.Now()
			err := f.up(ctx)
			ms := InMilliseconds(time.Since(start))
			return ms, errors.Join(err, f.remove(ctx))
		},
	}
}

// interactive measures what others call the time to interactive: from the start of the command that
// makes a box until that box's first command has ended. Boxes begin one after the other, apart from
// each other by that time, or at once. A round of all boxes makes as many samples.
func (f *fleet) interactive(name string, apart time.Duration) Scenario {
	return Scenario{
		Name: "tti/" + name, Ceiling: InMilliseconds(BootLimit), Setup: f.prepare,
		Measure: func(ctx context.Context) (float64, error) {
			if len(f.taken) == 0 {
				if err := f.remove(ctx); err != nil {
					return 0, err
				}
				f.taken = f.enter(ctx, apart)
				if err := f.remove(ctx); err != nil {
					return 0, err
				}
			}
			first := f.taken[0]
			f.taken = f.taken[1:]
			return first.ms, first.err
		},
	}
}

// memory measures what one of the boxes costs when all have been idle for a while. It is like
// memoryIdle, but the boxes divide among them what they share.
func (f *fleet) memory() Scenario {
	return Scenario{
		Name: fmt.Sprintf("enter/memory-of-%d", len(f.names)), Unit: Bytes, Ceiling: machineMemory, Setup: f.prepare,
		Measure: func(ctx context.Context) (float64, error) {
			// Every other box too: one of the same template would bear a share of the cost.
			if err := f.lab.Plain.Remove(ctx); err != nil {
				return 0, err
			}
			each, err := f.idle(ctx)
			return each, errors.Join(err, f.remove(ctx))
		},
	}
}

// idle makes the boxes, leaves them idle, and returns the mean of their memory in bytes of PSS: a
// page that ten boxes share counts as a tenth for each.
func (f *fleet) idle(ctx context.Context) (each float64, err error) {
	if err := f.up(ctx); err != nil {
		return 0, err
	}
	if err := Sleep(ctx, Settle); err != nil {
		return 0, err
	}
	for _, name := range f.names {
		pss, err := f.lab.Plain.pss(ctx, name)
		if err != nil {
			return 0, err
		}
		each += pss / float64(len(f.names))
	}
	return each, nil
}

func (f *fleet) prepare(ctx context.Context) (err error) {
	for i := range f.names {
		f.names[i] = fmt.Sprintf("burst-%d", i)
		if f.repos[i], err = f.lab.Repo(ctx, f.names[i], SmallRepository); err != nil {
			return err
		}
	}
	return nil
}

// up makes all boxes at once, runs a command in each, and returns when all have ended.
func (f *fleet) up(ctx context.Context) (err error) {
	for _, o := range f.enter(ctx, 0) {
		err = errors.Join(err, o.err)
	}
	return err
}

// enter makes all boxes, each by a process of its own that begins that time after the one before,
// and runs a command in each.
func (f *fleet) enter(ctx context.Context, apart time.Duration) []outcome {
	p, out := f.lab.Plain, make([]outcome, len(f.names))
	var wg sync.WaitGroup
	for i := range f.names {
		wg.Go(func() {
			if out[i].err = Sleep(ctx, time.Duration(i)*apart); out[i].err == nil {
				out[i].ms, out[i].err = p.Timed(ctx, BootLimit, f.repos[i], p.Up(f.names[i], "--", "true")...)
			}
		})
	}
	wg.Wait()
	return out
}

func (f *fleet) remove(ctx context.Context) error { return f.lab.Plain.Remove(ctx, f.names...) }
