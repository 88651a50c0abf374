package simulation

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"agentbox/mesh/exchange/schedule"
)

// event is a future event. serial keeps the order of simultaneous ones.
type event struct {
	at     time.Duration
	serial int
	do     func()
}

// events is a heap (container/heap), the next event first.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].serial < e[j].serial
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return x
}

// after schedules an event.
func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.events, event{w.now + d, w.serial, do})
}

// send delivers a message after the latency, unless its receiver is dead by then. Messages are
// counted and take no bandwidth.
func (w *world) send(to *node, do func()) {
	w.out.Messages++
	w.after(w.cfg.Latency, func() {
		if !to.dead {
			do()
		}
	})
}

// flow is a piece on its way.
type flow struct {
	from, to *node
	id       schedule.RequestID
	piece    int
	// left is what is to come, in bytes, and rate how fast it comes, in bytes a second.
	left float64
	rate float64
	// since is when left was right: it is updated whenever the rate changes, not as time passes.
	since time.Duration
	// version distinguishes the arrival that was scheduled last from those before a change of the
	// rate.
	version int
	over    bool
	told    float64 // of left, when the receiver's scheduler was last told
}

// tell reports to the receiver's scheduler how much of a piece has come.
func (f *flow) tell() {
	left := f.left - f.rate*(f.from.w.now-f.since).Seconds()
	if n := int(f.told - left); n > 0 {
		f.to.state.Progress(f.from.w.now, f.to.slots[f.from.number], f.id, n)
		f.told = left
	}
}

// start adds a flow to the links, and divides them anew.
func (w *world) start(f *flow) {
	f.since = w.now
	f.from.sending = append(f.from.sending, f)
	f.to.receiving = append(f.to.receiving, f)
	w.share(f)
}

// end removes a flow from the links.
func (w *world) end(f *flow) {
	f.over = true
	same := func(o *flow) bool { return o == f }
	f.from.sending = slices.DeleteFunc(f.from.sending, same)
	f.to.receiving = slices.DeleteFunc(f.to.receiving, same)
	w.share(f)
}

// share divides anew the links of the flows that meet f: those of its sender, and those of every
// sender to its receiver.
func (w *world) share(f *flow) {
	w.fill(f.from)
	for _, other := range f.to.receiving {
		if other.from != f.from {
			w.fill(other.from)
		}
	}
}

// fill divides an uplink: what a flow cannot use, because its part of the downlink at the other end
// is smaller, goes to the sender's other flows.
func (w *world) fill(n *node) {
	flows := slices.Clone(n.sending)
	part := func(f *flow) float64 { return f.to.rate / float64(len(f.to.receiving)) }
	slices.SortFunc(flows, func(a, b *flow) int { return cmp.Compare(part(a), part(b)) })
	left := n.rate
	for i, f := range flows {
		rate := min(part(f), left/float64(len(flows)-i))
		left -= rate
		w.retime(f, rate)
	}
}

func (w *world) retime(f *flow, rate float64) {
	if rate == f.rate {
		return
	}
	f.left -= f.rate * (w.now - f.since).Seconds()
	f.rate, f.since = rate, w.now
	f.version++
	version := f.version
	w.after(time.Duration(max(0, f.left)/rate*float64(time.Second)), func() {
		if f.version == version && !f.over {
			w.arrive(f)
		}
	})
}

// arrive ends a flow. Its last byte comes a latency later, when the sender has the link for the
// next one.
func (w *world) arrive(f *flow) {
	w.end(f)
	w.after(w.cfg.Latency, func() {
		if !f.to.dead {
			f.to.state.Progress(w.now, f.to.slots[f.from.number], f.id, w.cfg.PieceSize)
			f.to.onPiece(f.from, f.id, f.piece)
		}
	})
	f.from.pump()
}

// abort stops the answer to a request.
func (n *node) abort(to *node, id schedule.RequestID) {
	for _, f := range n.sending {
		if f.to == to && f.id == id {
			n.w.end(f)
			n.pump()
			return
		}
	}
}
