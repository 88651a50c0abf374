package catalogue

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentbox/mesh/wire"
)

// serveTime bounds one answer, so that a peer that reads slowly holds little.
const serveTime = 30 * time.Second

// serve answers what a member asks: our own catalogue, and those of others as we have them. It is
// the node's handler; four answers of a connection are made at once.
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

// answer answers one request. Of a catalogue that we do not have there is no answer but the end of
// the stream.
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

// delta is what a peer lacks that has a catalogue up to a number; false for one of which we know
// nothing.
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

// heads lists the heads of all catalogues that we have, in the order of owners. An empty one of our
// own that was never changed is none.
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
