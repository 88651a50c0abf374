package background

import (
	"context"
	"time"
)

// Sleep waits for d. It is false when ctx has ended before.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
