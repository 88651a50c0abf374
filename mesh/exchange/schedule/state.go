package schedule

import (
	"math/rand/v2"
	"slices"
	"time"
)

// MaxPeers is how many peers a transfer may have at the same time: the holders of a piece are a
// word of bits.
const MaxPeers = 64

// Peer is the slot of a peer in a transfer: 0 to MaxPeers-1.
type Peer int

// Class is the priority of what is wanted.
type Class uint8

// The classes, the lowest first. They are those of cachestore.Priority, and None for what nobody
// wants.
const (
	None Class = iota
	Rest
	Soon
	Demand
)

// RequestID identifies a request of this transfer. It is never reused.
type RequestID uint32

// Action is something to do now: to send a request, or to cancel one, unless it has been answered.
type Action struct {
	Peer   Peer
	ID     RequestID
	Class  Class
	Pieces []int // one, or several of which the peer chooses one; none: it is not wanted any more
}

// Stats counts the requests and their outcomes.
type Stats struct {
	Asked, Hedged, EndGame, Cancelled, Stalled, Wrong, Refused int
	DuplicateBytes                                             int64 // bytes that came although another peer had sent them
}

// Plus adds up the Stats of two transfers.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		Asked: s.Asked + o.Asked, Hedged: s.Hedged + o.Hedged, EndGame: s.EndGame + o.EndGame, Cancelled: s.Cancelled + o.Cancelled,
		Stalled: s.Stalled + o.Stalled, Wrong: s.Wrong + o.Wrong, Refused: s.Refused + o.Refused, DuplicateBytes: s.DuplicateBytes + o.DuplicateBytes,
	}
}

// piece is the state of a piece. The zero value is one that nobody wants.
type piece struct {
	class Class
	here  bool
	// arrived: it is here, or being verified. Nobody is asked for it.
	arrived bool
	holders uint64 // peers that say they have it
	barred  uint64 // peers that sent it wrong
	// flights are the requests that may bring it.
	flights []*request
}

// request is one that was not answered in full.
type request struct {
	id    RequestID
	peer  Peer
	class Class
	// pieces are those that the peer may choose from; nil once it has.
	pieces []int
	picked int // the piece that comes, or -1 while an open request is unanswered
	sent   time.Duration
	began  bool          // bytes have come
	got    int           // bytes
	moved  time.Duration // when the last ones came
}

// State is one transfer. Its methods are called one at a time. Times are since any moment, and do
// not go back. It keeps a word of bits for each piece and set of peers, so that decisions take a
// few operations however many peers there are.
type State struct {
	sizes []int
	// mean is the average size of a piece in bytes: the expected size of the answer to an open
	// request.
	mean   float64
	pieces []piece
	peers  [MaxPeers]*peer
	in     uint64 // slots in use
	// live are the requests that are not over.
	live map[RequestID]*request
	// next is the id of the next request.
	next RequestID
	// queues has the wanted pieces by class, including some whose class has changed: see compact.
	queues [Demand + 1][]int
	random *rand.Rand
	stats  Stats
	// looked is when peers that deliver nothing were last looked for.
	looked time.Duration
}

// New starts a transfer of pieces of these sizes, in bytes, of which none is here. seed is for
// random choices: two nodes have different ones, or all would ask for the same piece first.
func New(sizes []int, seed uint64) *State {
	s := &State{sizes: sizes, pieces: make([]piece, len(sizes)), live: map[RequestID]*request{}, random: rand.New(rand.NewPCG(seed, 1))}
	total := 0
	for _, n := range sizes {
		total += n
	}
	s.mean = float64(max(1, total)) / float64(max(1, len(sizes)))
	return s
}

// Stats returns the counts so far.
func (s *State) Stats() Stats { return s.stats }

// Want adds pieces to what is wanted. Pieces of a higher class keep it, and those that are here
// stay as they are. Rest comes in random order, so that nodes which start together soon have
// different pieces to give.
func (s *State) Want(c Class, pieces []int) {
	fresh := make([]int, 0, len(pieces))
	for _, i := range pieces {
		if p := &s.pieces[i]; !p.here && p.class < c {
			p.class = c
			fresh = append(fresh, i)
		}
	}
	if c == Rest {
		s.random.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	}
	s.queues[c] = append(s.queues[c], fresh...)
}

// Unwant forgets pieces: nobody waits for them any more. What is on its way may still come.
func (s *State) Unwant(pieces []int) {
	for _, i := range pieces {
		s.pieces[i].class = None
	}
}

// SetPresent says that a piece is here, verified, wherever it came from. The result cancels the
// other requests for it.
func (s *State) SetPresent(i int) []Action {
	p := &s.pieces[i]
	p.here, p.arrived, p.class = true, true, None
	var out []Action
	for len(p.flights) > 0 {
		out = append(out, s.cancel(p.flights[0]))
	}
	return out
}

// SetAbsent says that a piece is not here, or not any more, and is wanted again, from anybody.
func (s *State) SetAbsent(i int) {
	p := &s.pieces[i]
	if p.here {
		p.here, p.arrived = false, false
	}
	p.barred = 0
}

// Missing lists what is wanted and nobody has: neither is it on its way, nor being verified.
func (s *State) Missing() []int {
	var out []int
	for i := range s.pieces {
		if p := &s.pieces[i]; p.class != None && !p.arrived && len(p.flights) == 0 && s.usable(p) == 0 {
			out = append(out, i)
		}
	}
	return out
}

// usable are the peers that have a piece and may be asked for it, sooner or later.
func (s *State) usable(p *piece) uint64 { return p.holders &^ p.barred & s.in }

// Join adds a peer that has these pieces (bit i%8 of byte i/8). The slot must be free; what was
// known of its last peer is forgotten. A bitmap that is too short lacks the rest.
func (s *State) Join(slot Peer, have []byte) {
	s.peers[slot] = &peer{slot: slot}
	s.in |= 1 << slot
	for i := range s.pieces {
		bit := uint64(1) << slot
		s.pieces[i].holders &^= bit
		s.pieces[i].barred &^= bit
		if i/8 < len(have) && have[i/8]&(1<<(i%8)) != 0 {
			s.pieces[i].holders |= bit
		}
	}
}

// Leave removes a peer. Others are asked for what it was asked for.
func (s *State) Leave(slot Peer) {
	if s.peers[slot] == nil {
		return
	}
	for p := s.peers[slot]; len(p.out) > 0; {
		s.forget(p.out[0])
	}
	s.in &^= 1 << slot
	s.peers[slot] = nil
}

// Has says that a peer has a piece from now on, or lacks it.
func (s *State) Has(slot Peer, i int, has bool) {
	if s.pieces[i].holders &^= 1 << slot; has && s.peers[slot] != nil {
		s.pieces[i].holders |= 1 << slot
	}
}

func (s *State) forget(r *request) {
	delete(s.live, r.id)
	if p := s.peers[r.peer]; p != nil {
		p.forget(r, s.size(r))
	}
	if r.picked >= 0 {
		p := &s.pieces[r.picked]
		p.flights = slices.DeleteFunc(p.flights, func(o *request) bool { return o == r })
	}
}

func (s *State) cancel(r *request) Action {
	s.forget(r)
	s.stats.Cancelled++
	return Action{Peer: r.peer, ID: r.id}
}

// size is what a request will bring, an estimate while the peer has not chosen.
func (s *State) size(r *request) int {
	if r.picked >= 0 {
		return s.sizes[r.picked]
	}
	return int(s.mean)
}

// Nobody is the slot of a peer that has left.
const Nobody Peer = -1
