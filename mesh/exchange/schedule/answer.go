package schedule

import (
	"slices"
	"time"
)

// open returns a request that is not over, nil for any other. It counts only for the peer that was
// asked: numbers of requests are easy to guess.
func (s *State) open(from Peer, id RequestID) *request {
	if r := s.live[id]; r != nil && r.peer == from {
		return r
	}
	return nil
}

// Picked says which piece a peer answers a request with, when the answer begins. False: this is not
// one of those that it was asked for, or the request is unknown: the peer is wrong, or answered
// while it was cancelled. It may be called again with the same piece.
func (s *State) Picked(now time.Duration, from Peer, id RequestID, i int) bool {
	r := s.open(from, id)
	if r == nil || i < 0 || i >= len(s.pieces) {
		return false
	}
	p := s.peers[r.peer]
	if r.picked >= 0 {
		r.began, r.moved, p.moved = true, now, now
		return r.picked == i
	}
	if !slices.Contains(r.pieces, i) {
		return false
	}
	p.bytes += s.sizes[i] - s.size(r)
	p.open--
	r.picked, r.began, r.moved, p.moved = i, true, now, now
	r.pieces = nil
	s.pieces[i].flights = append(s.pieces[i].flights, r)
	return true
}

// Progress says that n bytes of an answer came. It does nothing for a request that is over.
func (s *State) Progress(now time.Duration, from Peer, id RequestID, n int) {
	if r := s.open(from, id); r != nil {
		r.got += n
		r.moved, s.peers[r.peer].moved = now, now
	}
}

// Received says that an answer is complete. True: what came has to be verified, and SetPresent,
// Wrong or Failed follows. False: it is of no use, as the piece has come already. The request is
// over.
func (s *State) Received(now time.Duration, from Peer, id RequestID) bool {
	r := s.open(from, id)
	if r == nil || r.picked < 0 {
		return false
	}
	p := s.peers[r.peer]
	p.delivered(now, r.sent, s.sizes[r.picked])
	p.moved = now
	first := !s.pieces[r.picked].arrived
	if !first {
		s.stats.DuplicateBytes += int64(s.sizes[r.picked])
	}
	s.pieces[r.picked].arrived = true
	s.forget(r)
	return first
}

// Wrong says that a peer sent wrong bytes for a piece; others are asked for it. slot is Nobody for
// a peer that has left meanwhile.
func (s *State) Wrong(slot Peer, i int) {
	s.stats.Wrong++
	s.Failed(i)
	if slot != Nobody {
		s.pieces[i].barred |= 1 << slot
	}
}

// Failed says that a piece could not be kept, for a reason of ours. It is wanted as before.
func (s *State) Failed(i int) {
	s.pieces[i].arrived = s.pieces[i].here
	s.requeue(i)
}

// Refused says that a peer does not have what it was asked for: of an open request, none of the
// pieces. The request is over.
func (s *State) Refused(now time.Duration, from Peer, id RequestID) {
	r := s.open(from, id)
	if r == nil {
		return
	}
	s.stats.Refused++
	for _, i := range append(r.pieces, r.picked) {
		if i >= 0 {
			s.Has(r.peer, i, false)
		}
	}
	p := s.peers[r.peer]
	p.moved = now
	s.forget(r)
	// A peer that says of everything that it does not have it after all is asked less and less.
	if p.refused++; p.refused%16 == 0 {
		p.setAside(now)
	}
	if r.picked >= 0 {
		s.requeue(r.picked)
	}
}

func (s *State) requeue(i int) {
	if c := s.pieces[i].class; c != None {
		s.queues[c] = append(s.queues[c], i)
	}
}
