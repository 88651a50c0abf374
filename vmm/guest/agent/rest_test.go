//go:build linux

package agent

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A machine rests once after each burst of what its host says, and not within one.
func TestRestsAfterEachBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rests atomic.Int32
		a := New(Config{Machine: Machine{Rest: func() { rests.Add(1) }}})
		heard := a.restLater()
		for burst := range int32(3) {
			for range 10 {
				heard()
				time.Sleep(restAfter / 2)
			}
			if n := rests.Load(); n != burst {
				t.Errorf("%d rests in burst %d", n, burst)
			}
			time.Sleep(time.Hour)
		}
		if n := rests.Load(); n != 3 {
			t.Errorf("%d rests after 3 bursts", n)
		}
	})
	(&Agent{}).restLater()() // of a machine that has none
}
