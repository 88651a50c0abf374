package gateway

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// nameBurst is in bytes; nameMemory bounds how many names are remembered as known, so that a
// program that asks for the same names again costs nothing.
const (
	nameBurst  = 16 << 10
	nameRate   = 64 // bytes a second
	nameMemory = 4096
)

// budget bounds the new names of a box below wildcards (lookup.go), where the box chooses the name:
// each is a message to the server that answers for the domain, whatever becomes of a connection.
// Names known already are free. mu guards what follows it.
type budget struct {
	now   func() time.Time
	bytes *rate.Limiter // of new names

	mu    sync.Mutex
	known map[string]*list.Element
	order list.List // of names, most recently used first
}

func newBudget() *budget {
	return &budget{now: time.Now, bytes: rate.NewLimiter(nameRate, nameBurst), known: map[string]*list.Element{}}
}

// spend tells whether a name may be used, and takes it off the budget when it is new. One that was
// refused is not remembered: it is new again the next time. It may be called at once.
func (b *budget) spend(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.known[name]; e != nil {
		b.order.MoveToFront(e)
		return true
	}
	if !b.bytes.AllowN(b.now(), len(name)) {
		return false
	}
	b.known[name] = b.order.PushFront(name)
	if b.order.Len() > nameMemory {
		delete(b.known, b.order.Remove(b.order.Back()).(string))
	}
	return true
}
