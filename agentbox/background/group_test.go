package background_test

import (
	"sync"
	"testing"

	"agentbox/agentbox/background"
)

// Many begin something while others close: what was begun has ended when Close returns, and nothing
// begins after.
func TestNoGoAfterClose(t *testing.T) {
	for range 200 {
		var g background.Group
		var mu sync.Mutex
		running, begun, closed := 0, 0, false
		work := func() {
			mu.Lock()
			if closed {
				t.Error("it runs after Close")
			}
			mu.Unlock()
			mu.Lock()
			running--
			mu.Unlock()
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for {
					mu.Lock()
					running++
					mu.Unlock()
					if !g.Go(work) {
						mu.Lock()
						running--
						mu.Unlock()
						return
					}
					mu.Lock()
					begun++
					mu.Unlock()
				}
			})
		}
		for range 2 {
			all.Go(func() {
				for {
					mu.Lock()
					enough := begun > 20
					mu.Unlock()
					if enough {
						break
					}
				}
				g.Close()
				mu.Lock()
				closed = true
				mu.Unlock()
			})
		}
		all.Wait()
		if g.Go(func() {}) || running != 0 {
			t.Fatalf("%d still run", running)
		}
	}
}
