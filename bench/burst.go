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
func (c *fleet) burst() Scenario {
	return Scenario{
		Name: fmt.Sprintf("enter/burst-%d", len(c.names)), Ceiling: InMilliseconds(BootLimit), Setup: c.prepare,
		Measure: func(ctx context.Context) (float64, error) {
			if err := c.remove(ctx); err != nil {
				return 0, err
			}
			start := time.Now()
			err := c.up(ctx)
			ms := InMilliseconds(time.Since(start))
			return ms, errors.Join(err, c.remove(ctx))
		},
	}
}

// interactive measures what others call the time to interactive: from the start of the command that
// makes a box until that box's first command has ended. Boxes begin one after the other, apart from
// each other by that time, or at once. A round of all boxes makes as many samples.
func (c *fleet) interactive(name string, apart time.Duration) Scenario {
	return Scenario{
		Name: "tti/" + name, Ceiling: InMilliseconds(BootLimit), Setup: c.prepare,
		Measure: func(ctx context.Context) (float64, error) {
			if len(c.taken) == 0 {
				if err := c.remove(ctx); err != nil {
					return 0, err
				}
				c.taken = c.enter(ctx, apart)
				if err := c.remove(ctx); err != nil {
					return 0, err
				}
			}
			first := c.taken[0]
			c.taken = c.taken[1:]
			return first.ms, first.err
		},
	}
}

// memory measures what one of the boxes costs when all have been idle for a while. It is like
// memoryIdle, but the boxes divide among them what they share.
func (c *fleet) memory() Scenario {
	return Scenario{
		Name: fmt.Sprintf("enter/memory-of-%d", len(c.names)), Unit: Bytes, Ceiling: machineMemory, Setup: c.prepare,
		Measure: func(ctx context.Context) (float64, error) {
			// Every other box too: one of the same template would bear a share of the cost.
			if err := c.lab.Plain.Remove(ctx); err != nil {
				return 0, err
			}
			each, err := c.idle(ctx)
			return each, errors.Join(err, c.remove(ctx))
		},
	}
}

// idle makes the boxes, leaves them idle, and returns the mean of their memory in bytes of PSS: a
// page that ten boxes share counts as a tenth for each.
func (c *fleet) idle(ctx context.Context) (each float64, err error) {
	if err := c.up(ctx); err != nil {
		return 0, err
	}
	if err := Sleep(ctx, Settle); err != nil {
		return 0, err
	}
	for _, name := range c.names {
		pss, err := c.lab.Plain.pss(ctx, name)
		if err != nil {
			return 0, err
		}
		each += pss / float64(len(c.names))
	}
	return each, nil
}

func (c *fleet) prepare(ctx context.Context) (err error) {
	for i := range c.names {
		c.names[i] = fmt.Sprintf("burst-%d", i)
		if c.repos[i], err = c.lab.Repo(ctx, c.names[i], SmallRepository); err != nil {
			return err
		}
	}
	return nil
}

// up makes all boxes at once, runs a command in each, and returns when all have ended.
func (c *fleet) up(ctx context.Context) (err error) {
	for _, o := range c.enter(ctx, 0) {
		err = errors.Join(err, o.err)
	}
	return err
}

// enter makes all boxes, each by a process of its own that begins that time after the one before,
// and runs a command in each.
func (c *fleet) enter(ctx context.Context, apart time.Duration) []outcome {
	p, out := c.lab.Plain, make([]outcome, len(c.names))
	var wg sync.WaitGroup
	for i := range c.names {
		wg.Go(func() {
			if out[i].err = Sleep(ctx, time.Duration(i)*apart); out[i].err == nil {
				out[i].ms, out[i].err = p.Timed(ctx, BootLimit, c.repos[i], p.Up(c.names[i], "--", "true")...)
			}
		})
	}
	wg.Wait()
	return out
}

func (c *fleet) remove(ctx context.Context) error { return c.lab.Plain.Remove(ctx, c.names...) }
