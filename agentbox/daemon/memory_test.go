package daemon

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestIdleDaemonReleasesMemory(t *testing.T) {
	garbage := make([]byte, 64<<20)
	for i := range garbage {
		garbage[i] = 1
	}
	// While it lives, or it might be gone before.
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	runtime.KeepAlive(garbage)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { releaseMemory(ctx, time.Millisecond) })
	for now = before; now.HeapReleased < before.HeapReleased+48<<20; runtime.ReadMemStats(&now) {
		if t.Context().Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	work.Wait()
}
