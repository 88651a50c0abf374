package gateway

import (
	"container/list"
	"sync"
	"time"
)

// A name below an allowed wildcard is chosen by the box and is told to that domain's name server
// when it is dialled, so names are a way out. It is as narrow as this: so many bytes of new names
// at once, and so many a second after that.
const (
	nameBurst  = 16 << 10
	nameRate   = 64 // bytes a second
	nameMemory = 4096
)

// budget bounds the new names of a box. Names known already are free.
type budget struct {
	now func() time.Time

	mu    sync.Mutex
	left  float64
	last  time.Time
	known map[string]*list.Element
	order list.List // of names, most recently used first
}

func newBudget() *budget {
	return &budget{now: time.Now, left: nameBurst, last: time.Now(), known: map[string]*list.Element{}}
}

// spend tells whether a name may be used.
func (b *budget) spend(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.known[name]; e != nil {
		b.order.MoveToFront(e)
		return true
	}
	now := b.now()
	b.left = min(nameBurst, b.left+now.Sub(b.last).Seconds()*nameRate)
	b.last = now
	if b.left < float64(len(name)) {
		return false
	}
	b.left -= float64(len(name))
	b.known[name] = b.order.PushFront(name)
	if b.order.Len() > nameMemory {
		delete(b.known, b.order.Remove(b.order.Back()).(string))
	}
	return true
}
