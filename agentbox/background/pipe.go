package background

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"
)

// Pipe connects a writer with a reader. When one fails the other ends, too. Both have ended when it
// returns; the error is that of the first that failed.
func Pipe(ctx context.Context, from func(context.Context, io.Writer) error, to func(context.Context, io.Reader) error) error {
	r, w := io.Pipe()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := from(gctx, w)
		w.CloseWithError(err)
		return err
	})
	g.Go(func() error {
		err := to(gctx, r)
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	return g.Wait()
}
