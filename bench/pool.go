package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// poolSize machines are ready at the beginning of each sample; fillPool waits for them, poolTime at
// most.
const (
	poolSize = 2
	poolTime = time.Minute // for the pool to fill up
)

// warm is a fresh box from a pool, which is full each time. It has a home of its own: the pool
// belongs to the daemon. Its templates are those of the plain home, linked, so that filling the
// pool builds none.
func (l *Lab) warm() Scenario {
	var p *installation
	return Scenario{
		Name: "enter/warm",
		Setup: func(ctx context.Context) (err error) {
			if p, err = l.newInstallation(pooledHome, poolSize); err != nil {
				return err
			}
			linkTemplates(p.home, l.plain.home)
			// A pool holds machines of the templates that were used since its daemon started.
			_, err = p.measureFresh(ctx, "warm", smallRepository, bootLimit)
			return err
		},
		Measure: func(ctx context.Context) (float64, error) {
			if err := p.fillPool(ctx); err != nil {
				return 0, err
			}
			return p.measureFresh(ctx, "warm", smallRepository, enterLimit)
		},
		Teardown: func(ctx context.Context) error {
			if p == nil {
				return nil // its home could not be made
			}
			return errors.Join(p.close(ctx), os.RemoveAll(p.home.Dir))
		},
	}
}

// fillPool waits until the pool is full: a sample that found it empty would measure a boot. It asks
// the daemon again and again, as nothing tells when that is so.
func (p *installation) fillPool(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, poolTime, fmt.Errorf("the pool does not fill up to %d machines within %s", poolSize, poolTime))
	defer cancel()
	for {
		st, err := p.status(ctx)
		if err != nil || st.Pool >= poolSize {
			return err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
