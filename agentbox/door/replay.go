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

func (r *replays) once(ctx context.Context, key string, answer func() (int, []byte)) (int, []byte, error) {
	if len(key) > 400 {
		return 0, nil, agentbox.Errorf(agentbox.Invalid, "the Idempotency-Key is too long")
	}
	r.mu.Lock()
	one, again := r.by[key]
	if !again {
		one = &replay{done: make(chan struct{})}
		if r.by == nil {
			r.by = map[string]*replay{}
		}
		r.by[key], r.order = one, append(r.order, key)
	}
	r.mu.Unlock()
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
	r.kept(key, one, ctx.Err() != nil)
	return one.status, one.body, nil
}

// kept forgets the oldest answers, and one that says only that the client has gone.
func (r *replays) kept(key string, one *replay, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		delete(r.by, key)
		return
	}
	r.bytes += len(one.body)
	for len(r.order) > maxReplays || r.bytes > maxReplayed && len(r.order) > 1 {
		old := r.by[r.order[0]]
		if old != nil {
			select {
			case <-old.done:
				r.bytes -= len(old.body)
			default:
				return // the oldest is not done yet
			}
			delete(r.by, r.order[0])
		}
		r.order = r.order[1:]
	}
}
