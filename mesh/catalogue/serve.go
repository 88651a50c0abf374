package catalogue

import (
	"slices"

	"agentbox/agentbox"
	"agentbox/mesh/wire"
)

// serve answers what a member asks: our own catalogue, and those of others as we have them.
func (s *Store) serve(_ *wire.Conn, req request) (any, error) {
	if req.Owner.IsZero() {
		return s.heads(), nil
	}
	return s.delta(req)
}

// delta is what a peer lacks that has a catalogue up to a number; NotFound if it is unknown.
func (s *Store) delta(req request) (Delta, error) {
	got := s.catalogueOf(req.Owner)
	if got == nil || got.head.Sequence == 0 {
		return Delta{}, agentbox.Errorf(agentbox.NotFound, "no catalogue of %s", req.Owner.Short())
	}
	return got.since(req.Since, req.Extra), nil
}

// heads lists the heads of all our catalogues by owner, our own once it has changed.
func (s *Store) heads() []Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Head{}
	if s.own.head.Sequence > 0 {
		out = append(out, s.own.shown())
	}
	for _, got := range s.peers {
		out = append(out, got.shown())
	}
	slices.SortFunc(out, func(a, b Head) int { return a.Owner.Compare(b.Owner) })
	return out
}
