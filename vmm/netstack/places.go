package netstack

import (
	"maps"
	"slices"
	"sync"
)

// places are those that the connections or the flows of a box take: at most so many at once, and
// none any more once they were ended. Each is counted in work from take to leave. Its methods may
// be called from any goroutine.
type places[K comparable] struct {
	most  int
	count *sync.WaitGroup

	mu    sync.Mutex
	open  map[K]func() // how what has the place is ended; nil while nothing is to be ended
	ended bool
}

// init makes most places that are free. work counts those that are taken.
func (p *places[K]) init(most int, work *sync.WaitGroup) {
	p.most, p.count, p.open = most, work, map[K]func(){}
}

// take gives k a place and tells how many are taken by now; 0 when none is left.
func (p *places[K]) take(k K, end func()) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.open) >= p.most {
		return 0
	}
	p.open[k] = end
	p.count.Add(1) // while mu is held: nobody has begun to wait
	return len(p.open)
}

// has tells whether k has a place.
func (p *places[K]) has(k K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.open[k]
	return ok
}

// set says how what has a place is ended. It is false when it has to end now.
func (p *places[K]) set(k K, end func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[k] = end
	return !p.ended
}

// leave gives a place back.
func (p *places[K]) leave(k K) {
	p.mu.Lock()
	delete(p.open, k)
	p.mu.Unlock()
	p.count.Done()
}

// end ends all that has a place, and lets nothing begin any more.
func (p *places[K]) end() {
	p.mu.Lock()
	p.ended = true
	open := slices.Collect(maps.Values(p.open))
	p.mu.Unlock()
	for _, end := range open {
		if end != nil {
			end()
		}
	}
}
