package catalogue

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentbox/mesh/wire"
)

// serveTime bounds one answer, so that who reads slowly holds little.
const serveTime = 30 * time.Second

// serve answers what a member asks: our own catalogue, and those of others as we have them.
func (s *Store) serve(ctx context.Context, c wire.Conn) {
	var answers sync.WaitGroup
	defer answers.Wait()
	limit := make(chan struct{}, 4)
	for {
		st, err := c.AcceptStream(ctx)
		if err != nil {
			return
		}
		limit <- struct{}{}
		answers.Go(func() {
			defer func() { <-limit }()
			s.answer(st)
		})
	}
}

func (s *Store) answer(st wire.Stream) {
	defer st.Abort()
	_ = st.SetDeadline(time.Now().Add(serveTime))
	var req request
	if err := wire.ReadMessage(st, &req, maxRequest); err != nil {
		return
	}
	if req.Owner.IsZero() {
		_ = wire.WriteMessage(st, s.heads(), maxHeads)
	} else if d, ok := s.delta(req); ok {
		_ = wire.WriteMessage(st, d, maxDelta)
	}
	_ = st.Close()
}

func (s *Store) delta(req request) (Delta, bool) {
	s.mu.Lock()
	got := s.peers[req.Owner]
	if req.Owner == s.self {
		got = s.own
	}
	s.mu.Unlock()
	if got == nil || got.head.Sequence == 0 {
		return Delta{}, false
	}
	return got.since(req.Since), true
}

// heads lists what we have, by owner.
func (s *Store) heads() []Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Head{}
	if s.own.head.Sequence > 0 {
		out = append(out, s.own.head)
	}
	for _, got := range s.peers {
		out = append(out, got.head)
	}
	slices.SortFunc(out, func(a, b Head) int { return a.Owner.Compare(b.Owner) })
	return out
}
