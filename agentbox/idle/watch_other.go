//go:build !linux

package idle

import "context"

// Run waits for ctx: nobody says here when this machine sleeps.
func (w Watcher) Run(ctx context.Context) { <-ctx.Done() }
