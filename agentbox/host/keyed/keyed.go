// Package keyed has locks by name, so that one caller makes what a key stands for while the others
// wait for it. It does not remember what was made.
package keyed

import "sync"

// Locks are locks by name. The zero value is ready. A lock is never freed, so names should be few.
type Locks struct {
	mu  sync.Mutex
	all map[string]*sync.Mutex
}

// Lock waits for the lock of a name. unlock releases it and is called once. No context ends the
// wait: the caller that holds the lock bounds it.
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
