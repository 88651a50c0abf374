package schedule

import (
	"math/bits"
	"time"
)

// Next returns what to ask for now. It is called after anything happened, and at the time that Wake
// returns. Its result counts as asked from then on.
func (s *State) Next(now time.Duration) []Action {
	out := s.expire(now)
	out = s.demand(now, out)
	for c := Soon; c >= Rest && !s.waiting(Demand); c-- {
		out = s.bulk(now, c, out)
		if s.waiting(c) {
			break // nothing of a lower class while some of this one is not even asked for
		}
	}
	return s.endGame(now, out)
}

// Wake returns when Next should be called even if nothing happened, 0 for never. Something that
// fails to happen (a silent peer, a late demand) is noticed by then.
func (s *State) Wake(now time.Duration) time.Duration {
	if len(s.live) == 0 && !s.waiting(Rest) && !s.waiting(Soon) && !s.waiting(Demand) {
		return 0
	}
	return now + minHedge/2
}

// waiting reports whether a piece of a class has a holder and was asked of nobody. It looks only at
// the first pieces of the queue (scan); the others move up.
func (s *State) waiting(c Class) bool {
	q := s.compact(c)
	for _, i := range q[:min(scan, len(q))] {
		if p := &s.pieces[i]; len(p.flights) == 0 && s.usable(p) != 0 && !s.chosenFor(p) {
			return true
		}
	}
	return false
}

// chosenFor reports whether the only holder of a piece has open requests that may bring it.
func (s *State) chosenFor(p *piece) bool {
	sole := s.usable(p)
	return bits.OnesCount64(sole) == 1 && s.peers[bits.TrailingZeros64(sole)].open > 0
}

// compact drops from the front of a queue what is no longer wanted in this class. Pieces that
// change their class stay in the queue of the old one until then.
func (s *State) compact(c Class) []int {
	q := s.queues[c]
	kept := q[:0]
	for n, i := range q {
		if n >= scan && len(kept) > 0 {
			kept = append(kept, q[n:]...)
			break
		}
		if p := &s.pieces[i]; p.class == c && !p.arrived {
			kept = append(kept, i)
		}
	}
	s.queues[c] = kept
	return kept
}

// expire cancels what was asked of peers that deliver nothing, or next to nothing while others
// could. It looks at most every minHedge/2, as Next is called for each message.
func (s *State) expire(now time.Duration) []Action {
	if now < s.looked+minHedge/2 {
		return nil
	}
	s.looked = now
	var out []Action
	for m := s.in; m != 0; m &= m - 1 {
		p := s.peers[bits.TrailingZeros64(m)]
		if len(p.out) == 0 || now-p.moved < stall && !s.isCrawling(now, p) {
			continue
		}
		s.stats.Stalled++
		for len(p.out) > 0 {
			out = append(out, s.cancel(p.out[0]))
		}
		p.setAside(now)
	}
	return out
}

// isCrawling reports whether a peer hardly sends something that others have, too.
func (s *State) isCrawling(now time.Duration, p *peer) bool {
	for _, r := range p.out {
		took := now - r.sent
		if r.began && took > crawlAfter && float64(r.got) < took.Seconds()*minRate && s.usable(&s.pieces[r.picked])&^(1<<p.slot) != 0 {
			return true
		}
	}
	return false
}

// demand asks the best peer for what somebody waits for, then another, maxCopies in all.
func (s *State) demand(now time.Duration, out []Action) []Action {
	for _, i := range s.compact(Demand) {
		p := &s.pieces[i]
		switch flying := s.fastest(p); {
		case flying == nil:
			if best := s.bestHolder(now, p, s.sizes[i], 0); best != nil {
				out = append(out, s.ask(now, best, Demand, i))
			}
		case len(p.flights) < maxCopies && s.overdue(now, flying):
			if best := s.bestHolder(now, p, s.sizes[i], s.asked(p)); best != nil {
				s.stats.Hedged++
				out = append(out, s.ask(now, best, Demand, i))
			}
		}
	}
	return out
}

// fastest is the request that brings a piece as a demand or has begun to, nil without one. One that
// waits in a peer's queue as bulk does not count.
func (s *State) fastest(p *piece) *request {
	var out *request
	for _, r := range p.flights {
		if (r.began || r.class == Demand) && (out == nil || r.sent > out.sent) {
			out = r
		}
	}
	return out
}

func (s *State) asked(p *piece) uint64 {
	var m uint64
	for _, r := range p.flights {
		m |= 1 << r.peer
	}
	return m
}

// overdue reports whether a demand takes twice as long as it should, or has stalled.
func (s *State) overdue(now time.Duration, r *request) bool {
	p := s.peers[r.peer]
	rate := p.rate
	if rate == 0 {
		rate = initialRate
	}
	expected := time.Duration(float64(s.sizes[r.picked]) / rate * float64(time.Second))
	return now-r.sent > minHedge+2*expected || r.began && now-r.moved > minHedge
}

// bestHolder is the holder that should deliver a piece first, nil when none may be asked. Demands
// do not wait for a window.
func (s *State) bestHolder(now time.Duration, p *piece, size int, not uint64) *peer {
	var best *peer
	for m := s.usable(p) &^ not; m != 0; m &= m - 1 {
		q := s.peers[bits.TrailingZeros64(m)]
		if now < q.aside || len(q.out) >= 2*maxWindow {
			continue
		}
		if best == nil || q.wait(size) < best.wait(size) {
			best = q
		}
	}
	return best
}

func (s *State) ask(now time.Duration, q *peer, c Class, i int) Action {
	r := s.request(now, q, c, s.sizes[i])
	r.picked = i
	s.pieces[i].flights = append(s.pieces[i].flights, r)
	return Action{Peer: q.slot, ID: r.id, Class: c, Pieces: []int{i}}
}

// request records a request of about that many bytes. An idle peer's rate is measured from now.
func (s *State) request(now time.Duration, q *peer, c Class, size int) *request {
	r := &request{id: s.next, peer: q.slot, class: c, picked: -1, sent: now, moved: now}
	s.next++
	s.live[r.id] = r
	s.stats.Asked++
	if len(q.out) == 0 {
		q.moved = now
	}
	q.out = append(q.out, r)
	q.bytes += size
	return r
}
