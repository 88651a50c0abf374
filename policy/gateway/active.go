package gateway

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"agentbox/policy"
)

// activeSet has the connections of the box, its requests, or outgoing connections that are under
// way. mu guards the set and is not held while flows are reviewed or ended.
type activeSet struct {
	// limit is how many there may be.
	limit int

	mu     sync.Mutex
	closed bool
	// all are those under way; wg counts them for close.
	all map[*activeFlow]struct{}
	wg  sync.WaitGroup
}

// activeFlow is one connection or request under way.
type activeFlow struct {
	flow policy.Flow
	// secrets are the names of those that a request carries.
	secrets     []string
	end         func()      // ends it soon; may be called at any time, repeatedly
	uninspected atomic.Bool // a connection whose requests are not decided
}

// review tells whether a flow may continue under a policy, and why not.
func (a *activeFlow) review(p *policy.Policy) policy.Verdict {
	v := p.Decide(a.flow)
	switch {
	case v.Allow && !mayCarrySecrets(p, a):
		return policy.Verdict{Source: policy.Builtin, Reason: "a secret it carries may not be sent there any more"}
	case v.Allow && v.NeedsInspection && a.uninspected.Load():
		// Only the box and the server have its keys, so it cannot be decrypted any more.
		return policy.Verdict{Source: policy.Builtin, Reason: "requests there are decided one by one from now on, and this connection was not opened: connect again"}
	}
	return v
}

func newActiveSet(limit int) *activeSet {
	return &activeSet{limit: limit, all: map[*activeFlow]struct{}{}}
}

// add registers a flow, unless there are too many or the set is closed. The caller calls the
// returned function when the flow has ended.
func (a *activeSet) add(p *activeFlow) (done func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.all) >= a.limit {
		return nil, false
	}
	a.all[p] = struct{}{}
	a.wg.Add(1)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, p)
		a.wg.Done()
	}, true
}

func (a *activeSet) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// review ends the flows that may not stay.
func (a *activeSet) review(mayStay func(*activeFlow) bool) {
	a.mu.Lock()
	list := slices.Collect(maps.Keys(a.all))
	a.mu.Unlock()
	for _, p := range list {
		if !mayStay(p) {
			p.end()
		}
	}
}

// close ends every flow and lets none begin. It returns when all have ended.
func (a *activeSet) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.review(func(*activeFlow) bool { return false })
	a.wg.Wait()
}
