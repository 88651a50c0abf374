package gateway

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"agentbox/policy"
)

// entry is the audit entry of an allowed flow; dialled is the address it went to, if any.
func (t *traffic) entry(f policy.Flow, v policy.Verdict, dialled netip.Addr, started time.Time) policy.Entry {
	e := policy.EntryFor(f, v)
	if dialled.IsValid() {
		e.Address = dialled.String()
	}
	e.In, e.Out, e.Millis = t.received.Load(), t.sent.Load(), time.Since(started).Milliseconds()
	return e
}

// Bounds of what is logged for a box that repeats itself. Within a window, equal refusals are
// written once and then counted, as are different ones beyond the first few.
const (
	floodWindow = 5 * time.Second
	maxDistinct = 128 // refusals of one kind that are told apart in a window
)

// recorder writes entries and aggregates floods of refusals. Entries of allowed flows are always
// written. mu guards the maps and is not held while an entry is written.
type recorder struct {
	// write is Config.Audit.
	write func(policy.Entry)

	mu      sync.Mutex
	counted map[refusalKey]*policy.Entry // refusals of this window, with those that were repeated
	kinds   map[string]int               // how many of them there are of each kind
}

// refusalKey is what refusals must have in common to be aggregated. It lacks the path, so that a
// box that tries many has one line for each method.
type refusalKey struct {
	kind, name, method, address string
	proto                       policy.Proto
	port                        uint16
}

func newRecorder(write func(policy.Entry)) *recorder {
	return &recorder{write: write, counted: map[refusalKey]*policy.Entry{}, kinds: map[string]int{}}
}

// run ends windows until ctx ends. Gateway.Close flushes the last one.
func (r *recorder) run(ctx context.Context) {
	tick := time.NewTicker(floodWindow)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.flush()
		case <-ctx.Done():
			return
		}
	}
}

// record writes an entry or counts it. It may block as long as write does.
func (r *recorder) record(e policy.Entry) {
	if e.Allow || !r.aggregate(e) {
		r.write(e)
	}
}

// aggregate counts a refusal that was already written in this window, and tells whether it has: a
// refusal for which it is false is written now.
//
// The first with a key is written at once, so that a person sees it. Later ones are counted and
// written at the end of the window. Beyond maxAlike of one kind, all others are counted in one line
// without a name.
func (r *recorder) aggregate(e policy.Entry) bool {
	key := refusalKey{e.Kind, e.Name, e.Method, e.Address, e.Proto, e.Port}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.counted[key]; !known {
		if r.kinds[e.Kind]++; r.kinds[e.Kind] <= maxDistinct {
			r.counted[key] = nil
			return false
		}
		key = refusalKey{kind: e.Kind}
		e = policy.Entry{
			Kind: e.Kind, Proto: e.Proto, Rule: e.Rule, Source: e.Source, Secret: e.Secret, Count: e.Count,
			Reason: "more like those before, not listed one by one",
		}
	}
	if repeated := r.counted[key]; repeated != nil {
		repeated.Count = max(repeated.Count, 1) + max(e.Count, 1)
	} else {
		r.counted[key] = &e
	}
	return true
}

// flush writes what was counted, in no order, and begins a window.
func (r *recorder) flush() {
	r.mu.Lock()
	repeated := r.counted
	r.counted, r.kinds = map[refusalKey]*policy.Entry{}, map[string]int{}
	r.mu.Unlock()
	for _, e := range repeated {
		if e != nil {
			r.write(*e)
		}
	}
}
