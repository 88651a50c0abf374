package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Each sample starts with poolSize machines ready; fillPool waits for them for at most poolTime.
const (
	poolSize = 2
	poolTime = time.Minute // for the pool to fill up
)

// warm measures a fresh box from a pool that is full. It has a home of its own, because the pool
// belongs to the daemon. It links the templates of the plain home, so that filling the pool builds
// none.
func (l *Lab) warm() Scenario {
	var p *Installation
	return Scenario{
		Name: "enter/warm",
		Setup: func(ctx context.Context) (err error) {
			if p, err = l.newInstallation(pooledHome, poolSize); err != nil {
				return err
			}
			linkTemplates(p.Home, l.Plain.Home)
			// A pool holds machines only of keys (Box.Template) that were used since its daemon started.
			_, err = p.measureFresh(ctx, "warm", SmallRepository, BootLimit)
			return err
		},
		Measure: func(ctx context.Context) (float64, error) {
			if err := p.fillPool(ctx); err != nil {
				return 0, err
			}
			return p.measureFresh(ctx, "warm", SmallRepository, EnterLimit)
		},
		Teardown: func(ctx context.Context) error {
			if p == nil {
				return nil // its home could not be made
			}
			return errors.Join(p.Close(ctx), os.RemoveAll(p.Home.Dir))
		},
	}
}

// fillPool waits until the pool is full, because a sample that finds it empty would measure a boot.
// It polls the daemon, which has no notification for this.
func (i *Installation) fillPool(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, poolTime, fmt.Errorf("the pool does not fill up to %d machines within %s", poolSize, poolTime))
	defer cancel()
	for {
		st, err := i.status(ctx)
		if err != nil || st.Pool >= poolSize {
			return err
		}
		if err := Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}
