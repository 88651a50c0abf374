package simulation

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"agentbox/mesh/exchange/schedule"
)

// Config describes a run. Each optional field says what zero means.
type Config struct {
	Nodes     int     // that want the blob, besides the seeds
	Seeds     int     // that have it; 0: 1
	Pieces    int     //
	PieceSize int     // bytes
	Rate      float64 // bytes a second of each link in each direction
	Latency   time.Duration
	Neighbors int           // sessions of a node at most; 0: all others, up to 32
	Stagger   time.Duration // between one node's beginning and the next one's
	KillSeeds float64       // the seeds vanish when each piece was sent this many times on average; 0: never
	Slow      int           // so many of the nodes send and receive at a hundredth of Rate
	Seed      uint64        // of what is random
}

// Result is the outcome of a run.
type Result struct {
	Ideal          time.Duration   // one transfer at link speed
	Times          []time.Duration // of each node that has all of it, from its beginning, sorted
	Missing        int             // nodes that do not
	SeedSent       int64           // bytes of pieces that all seeds sent
	Blob           int64           // bytes of the blob
	DuplicateBytes int64           // bytes that came to somebody who had them
	SentOnce       bool            // no seed sent a piece twice before each was sent once
	Messages       int64           // that are not pieces
}

// uploads is how many pieces a node sends at the same time, as in package exchange. With fewer,
// links are idle where two senders meet at one receiver; with more, each piece takes longer until
// it is passed on.
const uploads = 8

// maxRunTime is how many transfers at link speed a run lasts at most, after the last node started.
// Nodes that are not done by then count as missing.
const maxRunTime = 20

// Run simulates until every node has everything, nothing happens any more, or it takes too long.
// The same Config gives the same Result.
func Run(cfg Config) Result {
	w := newWorld(cfg)
	end := time.Duration(cfg.Nodes)*cfg.Stagger + maxRunTime*w.out.Ideal
	for len(w.events) > 0 && w.left > 0 && w.now < end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	return w.result()
}

// world is one run. left counts the nodes that do not have everything.
type world struct {
	cfg Config
	now time.Duration
	// events are the future ones, the next first; serial numbers them.
	events events
	serial int
	nodes  []*node
	left   int
	random *rand.Rand
	// out is the Result so far.
	out Result
}

// node is one machine: a receiver's State, except for seeds, and a sender's Queue, as in package
// exchange.
type node struct {
	w      *world
	number int
	// rate is that of its links, in bytes a second.
	rate float64
	// have are the pieces that it has, count of them.
	have  []bool
	count int
	// began and done are times of the run; done is 0 until it has everything.
	began time.Duration
	done  time.Duration
	dead  bool
	state *schedule.State // nil for a seed
	queue *schedule.Queue[int, int]
	peers []*node // by slot
	// slots has the slots of peers by their numbers; waking and planning: a call of the scheduler
	// is on the heap already.
	slots map[int]schedule.Peer
	// sending and receiving are the flows on its two links.
	sending   []*flow
	receiving []*flow
	waking    bool
	planning  bool
	once      map[int]bool // pieces that this seed has sent
}

// newWorld makes the nodes, the seeds first, and starts the others, one Stagger after the other.
func newWorld(cfg Config) *world {
	cfg.Seeds = max(1, cfg.Seeds)
	w := &world{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 7)), left: cfg.Nodes}
	w.out = Result{Blob: int64(cfg.Pieces) * int64(cfg.PieceSize), SentOnce: true}
	w.out.Ideal = time.Duration(float64(w.out.Blob) / cfg.Rate * float64(time.Second))
	for i := range cfg.Seeds + cfg.Nodes {
		n := &node{w: w, number: i, rate: cfg.Rate, have: slices.Repeat([]bool{i < cfg.Seeds}, cfg.Pieces), slots: map[int]schedule.Peer{}, queue: schedule.NewQueue[int, int](), once: map[int]bool{}}
		if i >= cfg.Seeds {
			n.state = schedule.New(slices.Repeat([]int{cfg.PieceSize}, cfg.Pieces), cfg.Seed+uint64(i))
			if i-cfg.Seeds < cfg.Slow {
				n.rate /= 100
			}
			w.after(time.Duration(i-cfg.Seeds)*cfg.Stagger, n.begin)
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// begin connects a node to those that are there already, as many as it may, and wants everything.
func (n *node) begin() {
	w := n.w
	n.began = w.now
	limit := w.cfg.Neighbors
	if limit == 0 {
		limit = 32
	}
	others := w.random.Perm(n.number)
	// The seeds come first: the catalogue names them. They turn away who comes when they are full.
	slices.SortStableFunc(others, func(a, b int) int { return min(a/w.cfg.Seeds, 1) - min(b/w.cfg.Seeds, 1) })
	for _, i := range others {
		if o := w.nodes[i]; !o.dead && len(n.peers) < limit/2+w.cfg.Seeds && len(o.peers) < schedule.MaxPeers-1 && (o.state == nil || len(o.peers) < limit) {
			connect(n, o)
		}
	}
	all := make([]int, w.cfg.Pieces)
	for i := range all {
		all[i] = i
	}
	n.state.Want(schedule.Rest, all)
	n.plan()
}

// connect gives two nodes a session with each other; each learns a latency later what the other
// has.
func connect(a, b *node) {
	for _, x := range [][2]*node{{a, b}, {b, a}} {
		n, o := x[0], x[1]
		n.slots[o.number] = schedule.Peer(len(n.peers))
		n.peers = append(n.peers, o)
		n.queue.Open(o.number, 0, n.w.cfg.Pieces)
		n.w.after(n.w.cfg.Latency, func() {
			if n.state != nil && !n.dead {
				n.state.Join(n.slots[o.number], o.bits())
				n.plan()
			}
		})
	}
}

// bits is what the node has, as schedule.State.Join takes it.
func (n *node) bits() []byte {
	out := make([]byte, (len(n.have)+7)/8)
	for i, ok := range n.have {
		if ok {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return out
}

// planDelay is how long a node waits for more to happen before it plans.
const planDelay = 200 * time.Microsecond

// plan calls the scheduler soon, and does what it says.
func (n *node) plan() {
	if n.state != nil && !n.planning {
		n.planning = true
		n.w.after(planDelay, n.planNow)
	}
}

// planNow reports the progress of its requests to the scheduler, calls it, and schedules the next
// call.
func (n *node) planNow() {
	n.planning = false
	if n.dead || n.done > 0 {
		return
	}
	for _, f := range n.receiving {
		f.tell()
	}
	n.act(n.state.Next(n.w.now))
	if at := n.state.Wake(n.w.now); at > 0 && !n.waking {
		n.waking = true
		n.w.after(at-n.w.now, func() { n.waking = false; n.plan() })
	}
}

// act does what the scheduler says, each as a message that arrives a latency later.
func (n *node) act(list []schedule.Action) {
	for _, a := range list {
		to := n.peers[a.Peer]
		n.w.send(to, func() {
			if len(a.Pieces) > 0 {
				to.queue.Push(n.number, uint32(a.ID), a.Class, a.Pieces)
				to.pump()
			} else {
				to.queue.Cancel(n.number, uint32(a.ID))
				to.abort(n, a.ID)
			}
		})
	}
}

// pump sends what comes next, up to uploads at the same time, one piece at a time to each receiver.
func (n *node) pump() {
	for !n.dead && len(n.sending) < uploads {
		free := func(s int) bool {
			return !slices.ContainsFunc(n.sending, func(f *flow) bool { return f.to.number == s })
		}
		a, ok := n.queue.Next(free, func(s, i int) bool { return n.have[i] && !n.w.nodes[s].have[i] })
		if !ok {
			return
		}
		to := n.w.nodes[a.Session]
		id := schedule.RequestID(a.ID)
		if a.Piece < 0 {
			n.w.send(to, func() { to.state.Refused(n.w.now, to.slots[n.number], id); to.plan() })
			continue
		}
		n.queue.Sent(a.Session, n.w.cfg.PieceSize)
		n.noteSeed(a.Piece)
		n.w.send(to, func() { to.state.Picked(n.w.now, to.slots[n.number], id, a.Piece) })
		n.w.start(&flow{from: n, to: to, id: id, piece: a.Piece, left: float64(n.w.cfg.PieceSize), told: float64(n.w.cfg.PieceSize)})
	}
}

func (n *node) noteSeed(piece int) {
	if n.state != nil {
		return
	}
	w := n.w
	if n.once[piece] && len(n.once) < w.cfg.Pieces {
		w.out.SentOnce = false
	}
	n.once[piece] = true
	w.out.SeedSent += int64(w.cfg.PieceSize)
	if k := w.cfg.KillSeeds; k > 0 && float64(w.out.SeedSent) >= k*float64(w.out.Blob) {
		w.after(0, n.die)
	}
}

// die makes a node vanish, with what it was sending. Its peers notice at once.
func (n *node) die() {
	if n.dead {
		return
	}
	n.dead = true
	for len(n.sending) > 0 {
		n.w.end(n.sending[0])
	}
	for _, o := range n.peers {
		if o.state != nil {
			o.state.Leave(o.slots[n.number])
			o.plan()
		}
	}
}

// onPiece handles a piece that came in full, and tells the peers, as package exchange does;
// verification takes no time here.
func (n *node) onPiece(from *node, id schedule.RequestID, piece int) {
	if n.have[piece] {
		n.w.out.DuplicateBytes += int64(n.w.cfg.PieceSize)
	}
	n.state.Received(n.w.now, n.slots[from.number], id)
	n.act(n.state.SetPresent(piece))
	if !n.have[piece] {
		n.have[piece] = true
		n.count++
		for _, o := range n.peers {
			n.w.send(o, func() {
				if o.state != nil && !o.dead {
					o.state.Has(o.slots[n.number], piece, true)
					o.plan()
				}
			})
		}
		if n.count == len(n.have) {
			n.done = n.w.now
			n.w.left--
			n.w.out.Times = append(n.w.out.Times, n.done-n.began)
		}
	}
	n.plan()
}

func (w *world) result() Result {
	w.out.Missing = w.left
	slices.Sort(w.out.Times)
	return w.out
}
