package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"agentbox/policy"
)

// event is one flow, or one refusal, for the audit log. It holds no value of a secret, no header
// and no query.
type event struct {
	Flow    policy.Flow    // Path is without query
	Verdict policy.Verdict // Reason says why, in one line
	What    string         // the kind of a refusal that is not the policy's: "framing", "sni", "placeholder", ...
	Dialled netip.Addr     // where it went
	Secret  string         // the names of the secrets that were put in, or whose placeholder was found in the wrong place
	Status  int            // of the response, for a request
	Sent    int64          // bytes from the box
	Got     int64          // bytes to the box
	Took    time.Duration
	Count   int // how many alike this one stands for; at least 1
}

// entry is the event as the audit log has it. What a rule refused, and what was carried, is of kind
// flow.
func (e event) entry() policy.Entry {
	entry := policy.EntryFor(e.Flow, e.Verdict)
	if e.What != "" {
		entry.Kind = e.What
	}
	if e.Dialled.IsValid() {
		entry.Address = e.Dialled.String()
	}
	if e.Status != 0 {
		entry.Reason = fmt.Sprintf("%s; answered %d", entry.Reason, e.Status)
	}
	entry.Secret, entry.Out, entry.In = e.Secret, e.Sent, e.Got
	entry.Millis = e.Took.Milliseconds()
	if e.Count > 1 {
		entry.Count = e.Count
	}
	return entry
}

// A box asks as often as it likes. What repeats itself within a window is written once and then as
// a number, and so is what differs from one to the next, beyond the first few.
const (
	floodWindow = 5 * time.Second
	maxAlike    = 128 // refusals of one sort that are told apart in a window
)

// recorder writes events and folds floods of refusals. What was allowed is never folded: each such
// flow carried something. mu guards the maps, and is not held while an entry is written.
type recorder struct {
	// write is Config.Audit.
	write func(policy.Entry)

	mu    sync.Mutex
	kinds map[eventKind]*event // refusals of this window, with those that were repeated
	sorts map[string]int       // how many kinds there are of each sort
}

// eventKind is what two refusals must share to be one line. The path is not in it: a box that tries
// many has one line for each method.
type eventKind struct {
	proto        policy.Proto
	name, method string
	addr         netip.Addr
	port         uint16
	what         string
}

func newRecorder(write func(policy.Entry)) *recorder {
	return &recorder{write: write, kinds: map[eventKind]*event{}, sorts: map[string]int{}}
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

// record writes an event, or counts it with one like it. It may block as long as write does.
func (r *recorder) record(e event) {
	e.Count = max(e.Count, 1)
	e.Flow.Path = withoutQuery(e.Flow.Path)
	if !e.Verdict.Allow && r.fold(e) {
		return
	}
	r.write(e.entry())
}

// fold counts an event that was written already in this window.
//
// The first of its kind is written at once, so that a person who looks sees it; those after it are
// counted, and written together at the window's end. A sort is what a kind is called: beyond
// maxAlike of one, all others are counted as one line without a name.
func (r *recorder) fold(e event) bool {
	kind := eventKind{e.Flow.Proto, e.Flow.Name, e.Flow.Method, e.Flow.Addr, e.Flow.Port, e.What}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.kinds[kind]; !known {
		if r.sorts[e.What]++; r.sorts[e.What] <= maxAlike {
			r.kinds[kind] = nil
			return false
		}
		kind = eventKind{what: e.What}
		e.Flow = policy.Flow{Proto: e.Flow.Proto}
		e.Verdict.Reason, e.Verdict.Hint = "more like those before, not listed one by one", ""
	}
	if repeated := r.kinds[kind]; repeated != nil {
		repeated.Count += e.Count
	} else {
		r.kinds[kind] = &e
	}
	return true
}

// flush writes what was counted, and begins a window.
func (r *recorder) flush() {
	r.mu.Lock()
	kinds := r.kinds
	r.kinds, r.sorts = map[eventKind]*event{}, map[string]int{}
	r.mu.Unlock()
	for _, e := range kinds {
		if e != nil {
			r.write(e.entry())
		}
	}
}
