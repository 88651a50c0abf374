// Package keyed has locks by name: what is made once for a key is made by one caller while the
// others wait for it.
package keyed

import "sync"

// Locks are locks by name. The zero value is ready; a lock is kept for good, so names should be
// few.
type Locks struct {
	mu  sync.Mutex
	all map[string]*sync.Mutex
}

// Lock waits for the lock of a name, and gives what lets go of it. unlock is called once. A waiter
// is not cancelled by a context: what it waits for is bounded by its maker.
func (l *Locks) Lock(name string) (unlock func()) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*sync.Mutex{}
	}
	one := l.all[name]
	if one == nil {
		one = &sync.Mutex{}
		l.all[name] = one
	}
	l.mu.Unlock()
	one.Lock()
	return one.Unlock
}
