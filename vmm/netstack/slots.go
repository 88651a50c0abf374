package netstack

import (
	"maps"
	"slices"
	"sync"
)

// slots bound how many connections or flows of a box are open at once. After end there are none.
// holders counts those that are taken. The methods may be called from any goroutine.
type slots[K comparable] struct {
	limit   int
	holders *sync.WaitGroup

	mu    sync.Mutex
	taken map[K]func() // how the holder is ended; nil while there is nothing to end
	ended bool
}

// init makes limit free slots, which count in holders while they are taken.
func (s *slots[K]) init(limit int, holders *sync.WaitGroup) {
	s.limit, s.holders, s.taken = limit, holders, map[K]func(){}
}

// acquire takes a slot for k, and returns how many are taken now; 0 if none was free.
func (s *slots[K]) acquire(k K, end func()) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.taken) >= s.limit {
		return 0
	}
	s.taken[k] = end
	s.holders.Add(1) // while mu is held: nobody waits for holders before ended is set
	return len(s.taken)
}

func (s *slots[K]) has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.taken[k]
	return ok
}

// onEnd sets how k, which has a slot, is ended. It returns false if k has to end now.
func (s *slots[K]) onEnd(k K, end func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[k] = end
	return !s.ended
}

func (s *slots[K]) release(k K) {
	s.mu.Lock()
	delete(s.taken, k)
	s.mu.Unlock()
	s.holders.Done()
}

// end ends all that have a slot. Nobody gets one any more.
func (s *slots[K]) end() {
	s.mu.Lock()
	s.ended = true
	taken := slices.Collect(maps.Values(s.taken))
	s.mu.Unlock()
	for _, end := range taken {
		if end != nil {
			end()
		}
	}
}
