package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// burst is n fresh boxes of n repositories at once, to the end of the last command.
func (l *Lab) burst(n int) Scenario {
	names := make([]string, n)
	repos := make([]string, n)
	return Scenario{
		Name: fmt.Sprintf("enter/burst-%d", n), Ceiling: milliseconds(bootLimit),
		Setup: func(ctx context.Context) (err error) {
			for i := range n {
				names[i] = fmt.Sprintf("burst-%d", i)
				if repos[i], err = l.repo(ctx, names[i], smallRepository); err != nil {
					return err
				}
			}
			return nil
		},
		Measure: func(ctx context.Context) (float64, error) {
			if err := l.plain.remove(ctx, names...); err != nil {
				return 0, err
			}
			start := time.Now()
			err := l.plain.upAll(ctx, names, repos)
			ms := milliseconds(time.Since(start))
			return ms, errors.Join(err, l.plain.remove(ctx, names...))
		},
	}
}

func (p *place) upAll(ctx context.Context, names, repos []string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() { _, errs[i] = p.timed(ctx, bootLimit, repos[i], p.up(names[i], "--", "true")...) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
