package schedule

import (
	"math/bits"
	"time"
)

// bulk asks for what nobody waits for, as much as the peers' windows allow: again and again the
// rarest piece that a free peer has. A piece that only one peer holds stands for all such pieces of
// that peer: it gets as many open requests as its window allows, which name all of them.
func (s *State) bulk(now time.Duration, c Class, out []Action) []Action {
	free := s.available(now)
	for len(s.live) < s.maxOutstanding() && free != 0 {
		i := s.rarest(c, free)
		if i < 0 {
			break
		}
		p := &s.pieces[i]
		sole := s.usable(p)
		var q *peer
		if bits.OnesCount64(sole) == 1 {
			q = s.peers[bits.TrailingZeros64(sole)]
			pieces := s.soleOf(c, sole)
			if len(pieces) <= q.open {
				free &^= sole // what it alone has is asked for
				continue
			}
			out = append(out, s.askOpen(now, q, c, pieces))
		} else {
			q = s.oneOfTwo(sole&free, s.sizes[i])
			out = append(out, s.ask(now, q, c, i))
		}
		if len(q.out) >= s.window(q) {
			free &^= 1 << q.slot
		}
	}
	return out
}

// maxOutstanding is how many requests may be out at all peers together: what is asked for long
// before it can come cannot be asked of a faster peer.
//
// allAhead is what all peers together deliver in that time; minAll is for the start, when no rate
// is known.
func (s *State) maxOutstanding() int {
	rate := 0.0
	for m := s.in; m != 0; m &= m - 1 {
		rate += s.peers[bits.TrailingZeros64(m)].rate
	}
	return minAll + int(rate*allAhead.Seconds()/s.mean)
}

// available may be asked for more: not set aside, and with room in their windows.
func (s *State) available(now time.Duration) uint64 {
	var free uint64
	for m := s.in; m != 0; m &= m - 1 {
		q := s.peers[bits.TrailingZeros64(m)]
		if now >= q.aside && len(q.out) < s.window(q) {
			free |= 1 << q.slot
		}
	}
	return free
}

// rarest is the piece of a class with the fewest holders that nobody was asked for and that one of
// these peers has; -1 for none. It looks only at the first pieces of the queue (scan), so a request
// costs no more in a blob of a million pieces than in a small one; Want has shuffled the rest.
func (s *State) rarest(c Class, free uint64) int {
	best, fewest := -1, MaxPeers+1
	q := s.compact(c)
	for _, i := range q[:min(scan, len(q))] {
		p := &s.pieces[i]
		if len(p.flights) > 0 || s.usable(p)&free == 0 {
			continue
		}
		if n := bits.OnesCount64(s.usable(p)); n < fewest {
			best, fewest = i, n
		}
		if fewest == 1 {
			break
		}
	}
	return best
}

// soleOf lists a class's pieces that only one peer has, and was not asked for by number.
func (s *State) soleOf(c Class, sole uint64) []int {
	var out []int
	for _, i := range s.queues[c] {
		if p := &s.pieces[i]; p.class == c && !p.arrived && len(p.flights) == 0 && s.usable(p) == sole {
			if out = append(out, i); len(out) == maxOpen {
				break
			}
		}
	}
	return out
}

func (s *State) askOpen(now time.Duration, q *peer, c Class, pieces []int) Action {
	r := s.request(now, q, c, int(s.mean))
	r.pieces = pieces
	q.open++
	return Action{Peer: q.slot, ID: r.id, Class: c, Pieces: pieces}
}

// oneOfTwo draws two of these peers and returns the one that will deliver sooner.
func (s *State) oneOfTwo(m uint64, size int) *peer {
	a, b := s.drawPeer(m), s.drawPeer(m)
	if b.wait(size) < a.wait(size) {
		return b
	}
	return a
}

func (s *State) drawPeer(m uint64) *peer {
	for n := s.random.IntN(bits.OnesCount64(m)); n > 0; n-- {
		m &= m - 1
	}
	return s.peers[bits.TrailingZeros64(m)]
}

// endGame asks a second peer for late pieces, when nothing else is to be asked for: until then, a
// second request would cost bandwidth for something new.
func (s *State) endGame(now time.Duration, out []Action) []Action {
	if s.waiting(Soon) || s.waiting(Rest) {
		return out
	}
	for c := Soon; c >= Rest; c-- {
		for _, i := range s.compact(c) {
			p := &s.pieces[i]
			if len(p.flights) != 1 || !s.isLate(now, p.flights[0]) {
				continue
			}
			free := s.usable(p) & s.available(now) &^ s.asked(p)
			if free == 0 {
				continue
			}
			s.stats.EndGame++
			out = append(out, s.ask(now, s.oneOfTwo(free, s.sizes[i]), c, i))
		}
	}
	return out
}

// isLate reports whether a bulk piece takes much longer than pieces take here: four times what a
// piece of mean size takes at the mean rate, or lateAfter, whichever is sooner.
func (s *State) isLate(now time.Duration, r *request) bool {
	rate, n := 0.0, 0
	for m := s.in; m != 0; m &= m - 1 {
		if p := s.peers[bits.TrailingZeros64(m)]; p.rate > 0 {
			rate += p.rate
			n++
		}
	}
	if n == 0 {
		rate, n = initialRate, 1
	}
	expected := s.mean / (rate / float64(n)) * float64(time.Second)
	return now-r.sent > min(lateAfter, time.Duration(4*expected)+minHedge)
}
