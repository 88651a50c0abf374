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
	runtime.KeepAlive(garbage)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { releaseMemory(ctx, time.Millisecond) })
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	for now = before; now.HeapReleased < before.HeapReleased+48<<20; runtime.ReadMemStats(&now) {
		if t.Context().Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	work.Wait()
}
