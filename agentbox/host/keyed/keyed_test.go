package keyed

import (
	"sync"
	"testing"
)

func TestLock(t *testing.T) {
	var l Locks
	defer l.Lock("another")()
	n := 0
	var work sync.WaitGroup
	for range 50 {
		work.Go(func() {
			defer l.Lock("a")()
			n++
		})
	}
	work.Wait()
	if n != 50 {
		t.Errorf("%d of 50", n)
	}
}
