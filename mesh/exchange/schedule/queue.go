package schedule

import "slices"

// Queue decides what a peer that serves sends next: demands first, then the session that got least,
// and of an open request the piece that was sent least. Its methods are called one at a time. S
// identifies a session, B a blob.
type Queue[S, B comparable] struct {
	sessions map[S]*receiver[B]
	// sent is how often each piece of a blob was sent, to any session.
	sent map[B][]uint32
	// clock is what a new session is assumed to have got: as much as those that were served all the
	// time. With less, it would be served alone until it has caught up.
	clock int64
}

// receiver is a session: what it asks for, the oldest first, and how many bytes it got.
type receiver[B comparable] struct {
	blob  B
	got   int64
	queue []wanted
}

// wanted is a request. With several pieces, any of them will do.
type wanted struct {
	id     uint32
	class  Class
	pieces []int
}

// Limits of what one session may ask for.
const (
	MaxQueued = 64 // requests
	// maxDemands bounds those that count as demands: a peer that made all its requests demands
	// would be served before all others.
	maxDemands = 8
)

// NewQueue makes an empty Queue.
func NewQueue[S, B comparable]() *Queue[S, B] {
	return &Queue[S, B]{sessions: map[S]*receiver[B]{}, sent: map[B][]uint32{}}
}

// Open adds a session for a blob of that many pieces. It must not be open.
func (q *Queue[S, B]) Open(s S, blob B, pieces int) {
	if len(q.sent[blob]) < pieces {
		q.sent[blob] = make([]uint32, pieces)
	}
	q.sessions[s] = &receiver[B]{blob: blob, got: q.clock}
}

// Close forgets a session, and with the last one for a blob how often its pieces were sent.
func (q *Queue[S, B]) Close(s S) {
	r := q.sessions[s]
	if r == nil {
		return
	}
	delete(q.sessions, s)
	for _, other := range q.sessions {
		if other.blob == r.blob {
			return
		}
	}
	delete(q.sent, r.blob)
}

// Push adds a request. False: there are too many, or it names pieces that do not exist, so the peer
// breaks the protocol. Demands beyond the bound count as Soon.
func (q *Queue[S, B]) Push(s S, id uint32, c Class, pieces []int) bool {
	r := q.sessions[s]
	if r == nil || len(r.queue) >= MaxQueued || len(pieces) == 0 {
		return false
	}
	demands := 0
	for _, w := range r.queue {
		if w.class == Demand {
			demands++
		}
	}
	if c == Demand && demands >= maxDemands {
		c = Soon
	}
	for _, i := range pieces {
		if i < 0 || i >= len(q.sent[r.blob]) {
			return false
		}
	}
	r.queue = append(r.queue, wanted{id, c, pieces})
	return true
}

// Cancel forgets the request with that id, if it is not answered.
func (q *Queue[S, B]) Cancel(s S, id uint32) {
	if r := q.sessions[s]; r != nil {
		r.queue = slices.DeleteFunc(r.queue, func(w wanted) bool { return w.id == id })
	}
}

// Answer is what to send: a piece of a session's blob, or, with Piece -1, that nothing of what was
// asked for is here.
type Answer[S comparable] struct {
	// Session and ID are those of the answered request.
	Session S
	ID      uint32
	Piece   int
}

// Next takes the request to be answered next out of the queue; false when there is none. may
// reports whether a session may be sent to now, and has whether a piece can be sent to it: it is
// here, and not there. The chosen piece counts as sent.
func (q *Queue[S, B]) Next(may func(S) bool, has func(S, int) bool) (Answer[S], bool) {
	s, at, ok := q.first(may)
	if !ok {
		return Answer[S]{}, false
	}
	r := q.sessions[s]
	w := r.queue[at]
	r.queue = slices.Delete(r.queue, at, at+1)
	q.clock = max(q.clock, r.got)
	sent := q.sent[r.blob]
	best := -1
	for _, i := range w.pieces {
		if has(s, i) && (best < 0 || sent[i] < sent[best]) {
			best = i
		}
	}
	if best >= 0 {
		sent[best]++
	}
	return Answer[S]{s, w.id, best}, true
}

// first finds the oldest request of the highest class, of the session that got least.
func (q *Queue[S, B]) first(may func(S) bool) (found S, at int, ok bool) {
	var best *receiver[B]
	for s, r := range q.sessions {
		if len(r.queue) == 0 || !may(s) {
			continue
		}
		i := r.foremost()
		if best == nil || r.queue[i].class > best.queue[at].class || r.queue[i].class == best.queue[at].class && r.got < best.got {
			best, found, at, ok = r, s, i, true
		}
	}
	return found, at, ok
}

func (r *receiver[B]) foremost() int {
	at := 0
	for i, w := range r.queue {
		if w.class > r.queue[at].class {
			at = i
		}
	}
	return at
}

// Sent counts bytes that a session got. Fairness is measured in bytes, not in pieces.
func (q *Queue[S, B]) Sent(s S, n int) {
	if r := q.sessions[s]; r != nil {
		r.got += int64(n)
	}
}
