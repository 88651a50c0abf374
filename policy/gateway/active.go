package gateway

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"agentbox/policy"
)

// live is what is under way: connections of the box, its requests, or connections outside. mu
// guards the set; it is held neither while something is reviewed nor while it is ended.
type activeSet struct {
	// most is how many there may be.
	most int

	mu     sync.Mutex
	closed bool
	// all are those under way, and wg counts them for close.
	all map[*activeFlow]struct{}
	wg  sync.WaitGroup
}

// passage is one connection or request under way.
type activeFlow struct {
	flow policy.Flow
	// secrets are the names of those it carries, of a request.
	secrets []string
	end     func()      // ends it soon; may be called at any time and more than once
	unread  atomic.Bool // a connection of which nothing is decided after its beginning
}

// review says whether a passage may go on under a policy, and why not.
func (q *activeFlow) review(p *policy.Policy) policy.Verdict {
	v := p.Decide(q.flow)
	switch {
	case v.Allow && !mayCarrySecrets(p, q):
		return policy.Verdict{Source: policy.Builtin, Reason: "a secret it carries may not be sent there any more"}
	case v.Allow && v.Inside && q.unread.Load():
		// Its keys are the box's and the server's alone, so it cannot be opened now; the next one
		// is.
		return policy.Verdict{Source: policy.Builtin, Reason: "requests there are decided one by one from now on, and this connection was not opened: connect again"}
	}
	return v
}

func newActiveSet(most int) *activeSet {
	return &activeSet{most: most, all: map[*activeFlow]struct{}{}}
}

// add registers a passage, unless there are too many or all is over. Call the returned function
// when it has ended.
func (l *activeSet) add(p *activeFlow) (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.all) >= l.most {
		return nil, false
	}
	l.all[p] = struct{}{}
	l.wg.Add(1)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, p)
		l.wg.Done()
	}, true
}

// count is how many there are.
func (l *activeSet) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// review ends every passage that may not stay.
func (l *activeSet) review(stays func(*activeFlow) bool) {
	l.mu.Lock()
	list := slices.Collect(maps.Keys(l.all))
	l.mu.Unlock()
	for _, p := range list {
		if !stays(p) {
			p.end()
		}
	}
}

// close ends every passage and lets none begin any more; it returns when all have ended.
func (l *activeSet) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.review(func(*activeFlow) bool { return false })
	l.wg.Wait()
}
