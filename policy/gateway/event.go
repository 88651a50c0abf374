package gateway

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"agentbox/policy"
)

// entry is a flow that was carried, for the audit log; dialled is where it went, if anywhere. A flow
// that began and came to nothing has one, too.
func (t *traffic) entry(f policy.Flow, v policy.Verdict, dialled netip.Addr, begun time.Time) policy.Entry {
	e := policy.EntryFor(f, v)
	if dialled.IsValid() {
		e.Address = dialled.String()
	}
	e.In, e.Out, e.Millis = t.got.Load(), t.sent.Load(), time.Since(begun).Milliseconds()
	return e
}

// A box asks as often as it likes. What repeats itself within a window is written once and then as
// a number, and so is what differs from one to the next, beyond the first few.
const (
	floodWindow = 5 * time.Second
	maxAlike    = 128 // refusals of one kind that are told apart in a window
)

// recorder writes entries and folds floods of refusals. What was allowed is never folded: each such
// flow carried something. mu guards the maps, and is not held while an entry is written.
type recorder struct {
	// write is Config.Audit.
	write func(policy.Entry)

	mu    sync.Mutex
	alike map[alike]*policy.Entry // refusals of this window, with those that were repeated
	kinds map[string]int          // how many of them there are of each kind
}

// alike is what two refusals must share to be one line. The path is not in it: a box that tries
// many has one line for each method.
type alike struct {
	kind, name, method, address string
	proto                       policy.Proto
	port                        uint16
}

func newRecorder(write func(policy.Entry)) *recorder {
	return &recorder{write: write, alike: map[alike]*policy.Entry{}, kinds: map[string]int{}}
}

// run ends windows until ctx ends; the gateway's last flush is its own.
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

// record writes an entry, or counts it with one like it. It may block as long as write does.
func (r *recorder) record(e policy.Entry) {
	if e.Allow || !r.fold(e) {
		r.write(e)
	}
}

// fold counts a refusal that was written already in this window.
//
// The first of its sort is written at once, so that a person who looks sees it; those after it are
// counted, and written together at the window's end. Beyond maxAlike of one kind, all others are
// counted as one line without a name.
func (r *recorder) fold(e policy.Entry) bool {
	sort := alike{e.Kind, e.Name, e.Method, e.Address, e.Proto, e.Port}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.alike[sort]; !known {
		if r.kinds[e.Kind]++; r.kinds[e.Kind] <= maxAlike {
			r.alike[sort] = nil
			return false
		}
		sort = alike{kind: e.Kind}
		e = policy.Entry{
			Kind: e.Kind, Proto: e.Proto, Rule: e.Rule, Source: e.Source, Secret: e.Secret, Count: e.Count,
			Reason: "more like those before, not listed one by one",
		}
	}
	if repeated := r.alike[sort]; repeated != nil {
		repeated.Count = max(repeated.Count, 1) + max(e.Count, 1)
	} else {
		r.alike[sort] = &e
	}
	return true
}

// flush writes what was counted, and begins a window.
func (r *recorder) flush() {
	r.mu.Lock()
	repeated := r.alike
	r.alike, r.kinds = map[alike]*policy.Entry{}, map[string]int{}
	r.mu.Unlock()
	for _, e := range repeated {
		if e != nil {
			r.write(*e)
		}
	}
}
