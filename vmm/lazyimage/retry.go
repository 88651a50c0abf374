package lazyimage

import (
	"context"
	"time"
)

// firstRetry is the time between the first two tries. It doubles with each try.
const firstRetry = 100 * time.Millisecond

// Retry calls do until it succeeds, ctx ends, or failed, which gets the error, returns false.
// longest is the longest time between two tries, at least firstRetry. Retry returns nil, the error
// of do when failed gave up, or that of ctx. It never gives up after a time: a guest whose disk
// fails does not recover, and one whose disk is slow does.
func Retry(ctx context.Context, longest time.Duration, do func() error, failed func(error) (again bool)) error {
	for wait := firstRetry; ; wait = min(2*wait, longest) {
		err := do()
		if err == nil || ctx.Err() != nil || !failed(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
