package schedule

import (
	"math/bits"
	"slices"
	"time"
)

// Times and amounts of the rules, windows in requests and rates in bytes a second.
// More pieces at once keep the links of a small team busy and make each hop of a large one longer. One
// transfer is 1, simulated (build/lab mesh --only 'mesh/simulated-*'): with 3, 4, 5, 6 and 8 pieces 16
// machines take 1.36, 1.27, 1.23, 1.20 and 1.17, 1,000 machines 3.0, 3.3, 3.4, 3.6 and 3.8.
const (
	minWindow = 1                     // requests at a peer that has shown nothing yet; one more while there are fewPeers
	fewPeers  = 2                     // and none of them may have to wait for a request
	maxWindow = 16                    //
	ahead     = 60 * time.Millisecond // of a peer's rate is asked for in advance
	allAhead  = 100 * time.Millisecond
	minAll    = 8
	// initialRate is the assumed rate, in bytes a second, of a peer that has shown nothing yet.
	initialRate = 10 << 20
	minHedge    = 60 * time.Millisecond // a demand is not hedged sooner
	lateAfter   = 500 * time.Millisecond
	crawlAfter  = 8 * time.Second
	stall       = 3 * time.Second // without a byte, while something is asked for
	maxAside    = time.Minute
	minRate     = 16 << 10 // bytes a second: less is nothing
	maxCopies   = 3        // of a demand on its way
	// maxOpen is how many pieces an open request names; a frame has no room for more.
	maxOpen = 512
	scan    = 4096 // pieces of a class that are looked at for one decision
)

// peer is what a transfer knows of a peer.
type peer struct {
	slot  Peer
	out   []*request    // that are not answered, the oldest first
	open  int           // open ones among them that it has not chosen for
	bytes int           // that they will bring
	rate  float64       // bytes a second that it delivers; 0: not known
	moved time.Duration // when something last came, or it was first asked after a pause
	done  time.Duration // when a piece last came in full
	aside time.Duration // it is not asked before
	// penalty is how long it was last set aside; 0: it is in good standing.
	penalty time.Duration
	refused int // pieces that it said it had and did not
}

func (p *peer) forget(r *request, size int) {
	if i := slices.Index(p.out, r); i >= 0 {
		p.out = slices.Delete(p.out, i, i+1)
	}
	p.bytes -= size
	if r.picked < 0 {
		p.open--
	}
}

// window is how many requests a peer may have. With many peers, a request that waits in the queue
// of one of them is one that another could answer at once.
func (s *State) window(p *peer) int {
	if p.penalty > 0 {
		return 1
	}
	w := minWindow + int(p.rate*ahead.Seconds()/s.mean)
	if bits.OnesCount64(s.in) <= fewPeers {
		w++
	}
	return min(maxWindow, w)
}

// wait estimates the seconds until a peer delivers size bytes beyond what it was asked for.
func (p *peer) wait(size int) float64 {
	rate := p.rate
	if rate == 0 {
		rate = initialRate
	}
	return float64(p.bytes+size) / rate
}

// delivered updates the rate after a piece came. The time counts from the arrival of the one
// before, with which the peer was busy until then. A new sample counts a quarter, so that one slow
// piece does not condemn a peer. The penalty is lifted.
func (p *peer) delivered(now, asked time.Duration, size int) {
	took := (now - max(asked, p.done)).Seconds()
	p.done = now
	sample := float64(size) / max(took, 1e-4)
	if p.rate == 0 {
		p.rate = sample
	} else {
		p.rate += (sample - p.rate) / 4
	}
	p.penalty = 0
}

// setAside leaves a peer alone that delivered nothing, each time for longer, and lowers its rate.
func (p *peer) setAside(now time.Duration) {
	p.penalty = min(max(stall, 2*p.penalty), maxAside)
	p.aside = now + p.penalty
	p.rate /= 4
}
