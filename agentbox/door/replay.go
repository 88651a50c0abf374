package door

import (
	"context"
	"sync"

	"agentbox/agentbox"
)

// replays keeps the answers of requests with an Idempotency-Key: of the last maxReplays, and as long
// as the door is open. A second request with a key waits for the first, and gets its answer.
type replays struct {
	mu    sync.Mutex
	by    map[string]*replay
	order []string
	bytes int
}

type replay struct {
	done   chan struct{}
	status int
	body   []byte
}

// maxReplays bounds the answers, maxReplayed their bytes.
const maxReplays, maxReplayed = 1000, 16 << 20

func (s *replays) once(ctx context.Context, key string, answer func() (int, []byte)) (int, []byte, error) {
	if len(key) > 400 {
		return 0, nil, agentbox.Errorf(agentbox.Invalid, "the Idempotency-Key is too long")
	}
	s.mu.Lock()
	one, again := s.by[key]
	if !again {
		one = &replay{done: make(chan struct{})}
		if s.by == nil {
			s.by = map[string]*replay{}
		}
		s.by[key], s.order = one, append(s.order, key)
	}
	s.mu.Unlock()
	if again {
		select {
		case <-one.done:
			return one.status, one.body, nil
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
	one.status, one.body = answer()
	close(one.done)
	s.kept(key, one, ctx.Err() != nil)
	return one.status, one.body, nil
}

// kept forgets the oldest answers, and one that says only that the client has gone.
func (s *replays) kept(key string, one *replay, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone {
		delete(s.by, key)
		return
	}
	s.bytes += len(one.body)
	for len(s.order) > maxReplays || s.bytes > maxReplayed && len(s.order) > 1 {
		old := s.by[s.order[0]]
		if old != nil {
			select {
			case <-old.done:
				s.bytes -= len(old.body)
			default:
				return // the oldest is not done yet
			}
			delete(s.by, s.order[0])
		}
		s.order = s.order[1:]
	}
}
