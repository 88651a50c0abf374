package gateway

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of the names of one box. nameBurst is in bytes. nameMemory is how many names are
// remembered: asking for one again is free.
const (
	nameBurst  = 16 << 10
	nameRate   = 64 // bytes a second
	nameMemory = 4096
)

// nameLimiter limits a box's new names below wildcards (lookup.go). There the box chooses the name,
// and each is a message to the domain's name server, even if no connection follows. Known names are
// free. mu guards what follows it.
type nameLimiter struct {
	now   func() time.Time
	bytes *rate.Limiter // of new names

	mu    sync.Mutex
	known map[string]*list.Element
	order list.List // of names, most recently used first
}

func newNameLimiter() *nameLimiter {
	return &nameLimiter{now: time.Now, bytes: rate.NewLimiter(nameRate, nameBurst), known: map[string]*list.Element{}}
}

// allow tells whether a name may be used, and charges its length for a new one. A refused name
// stays new. It may be called concurrently.
func (n *nameLimiter) allow(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.known[name]; e != nil {
		n.order.MoveToFront(e)
		return true
	}
	if !n.bytes.AllowN(n.now(), len(name)) {
		return false
	}
	n.known[name] = n.order.PushFront(name)
	if n.order.Len() > nameMemory {
		delete(n.known, n.order.Remove(n.order.Back()).(string))
	}
	return true
}
