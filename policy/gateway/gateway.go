package gateway

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/policy"
)

// Config is what a gateway needs. Policy, CA and Audit are required. Its funcs may be called from
// many goroutines at once.
type Config struct {
	Policy *policy.Policy
	// Values gives the present values of the policy's secrets; nil where there are none.
	Values policy.Values
	CA     *CA
	// Audit is called once per flow, at its end, and for each refusal; it must not block for long.
	// It has no way to fail: a log that cannot be written is its caller's to act on.
	Audit func(policy.Entry)
	Roots *x509.CertPool // what upstream servers are verified with; nil means the host's
	// Resolve gives a name's addresses; nil means the host's resolver. What it says is believed by
	// nobody: each address is decided about before it is dialled.
	Resolve Resolver
	// Usage is told of each answer of a model, where the gateway has opened the traffic: what it
	// says that it used, and the model's name as it says that. It has servers asked for codings
	// that are read here. Must not block; nil: nobody wants to know.
	Usage func(model string, t agentbox.Tokens)
}

// Gateway carries the flows of one box. Its methods may be called from any number of goroutines.
type Gateway struct {
	// cfg is what New was given; policy is the present one.
	cfg    Config
	policy atomic.Pointer[policy.Policy]
	audit  *recorder
	// lookup bounds new names below wildcards.
	lookup *budget
	conns  *activeSet // connections of the box
	calls  *activeSet // requests within them
	outs   *activeSet // connections outside, those that are kept for later requests too
	// up dials, web serves requests.
	up  *upstream
	web *web

	decoders decoders // of what models answer

	// ctx ends with Close. wg has the recorder's goroutine; flows are waited for by conns, calls
	// and outs, and those run in goroutines of the network stack and of web.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// How many connections a box may have open at once, and requests on them. Beyond it new ones are
// refused.
const (
	maxConns = 2048
	maxCalls = 4096
	maxOuts  = 2 * (maxConns + maxCalls) // a bound for mistakes of ours: each has one of the former, or is kept idle
)

// New makes a gateway. Close ends it. The box can begin at once.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg, lookup: newBudget(), conns: newActiveSet(maxConns), calls: newActiveSet(maxCalls), outs: newActiveSet(maxOuts), decoders: newDecoders()}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.policy.Store(cfg.Policy)
	g.audit = newRecorder(cfg.Audit)
	g.wg.Go(func() { g.audit.run(g.ctx) })
	g.up = newUpstream(g)
	g.web = newWeb(g)
	return g
}

// Close ends every flow and returns when all are over and recorded. What begins later is refused.
// The order is that in which one waits for the other: a connection's requests, then what they have
// outside.
func (g *Gateway) Close() {
	g.cancel()
	g.conns.close()
	g.web.close()
	g.calls.close()
	g.up.closeIdle()
	g.outs.close()
	g.wg.Wait()
	g.audit.flush()
}

// SetPolicy changes the policy. What the new one denies ends at once: connections and requests
// under way, those to addresses that are denied now, those that carry a secret which may not be
// sent there any more, and connections that pass unread where requests are decided from now on.
//
// Whatever begins is registered first and decided afterwards, so that a change of policy either
// finds it or is in its decision.
//
// It returns when everything that has to end was told to. Each is in the log, as policy-changed.
// Connections kept for later requests are closed: the next request dials under the new policy.
func (g *Gateway) SetPolicy(p *policy.Policy) {
	g.policy.Store(p)
	stays := func(q *activeFlow) bool {
		v := q.review(p)
		if !v.Allow {
			v.Kind = policyChanged
			g.deny(q.flow, v)
		}
		return v.Allow
	}
	g.calls.review(stays)
	g.conns.review(stays)
	g.outs.review(stays)
	g.up.closeIdle()
}

// policyChanged is the kind of what ends because the policy is another one.
const policyChanged = "policy-changed"

// mayCarrySecrets tells whether all secrets that a passage carries may be sent there under a policy.
func mayCarrySecrets(p *policy.Policy, q *activeFlow) bool {
	for _, name := range q.secrets {
		if !slices.ContainsFunc(p.SecretsFor(q.flow), func(s policy.Secret) bool { return s.Name == name }) {
			return false
		}
	}
	return true
}

// rules decides by the present policy.
func (g *Gateway) rules() Evaluator { return Evaluator{g.policy.Load(), g.cfg.Resolve} }

// Accept decides about a flow when its first packet is seen. Proto is TCP or UDP, Name what the box
// has looked up, and Addr is for an address that no name was looked up for. An error, a *Refusal,
// refuses it, and is in the log. That it is allowed here is not the last word: Stream and Packets
// decide again once it is registered.
func (g *Gateway) Accept(f policy.Flow) error {
	if v := g.rules().connect(f); !v.Allow {
		return g.deny(f, v)
	}
	if g.conns.count() >= g.conns.most {
		return g.refuse(f, "flood", fmt.Sprintf("more than %d connections at once", g.conns.most))
	}
	return nil
}

// deny records a refusal and gives its error.
func (g *Gateway) deny(f policy.Flow, v policy.Verdict) *Refusal {
	v.Allow = false
	g.audit.record(policy.EntryFor(f, v))
	return &Refusal{Flow: f, Verdict: v}
}

// refuse denies for a reason of the gateway's own, which no rule can lift.
func (g *Gateway) refuse(f policy.Flow, kind, reason string) *Refusal {
	return g.deny(f, refused(kind, reason))
}

// begin registers a passage; done ends it, and has to be called. The error is a *Refusal when there
// are too many, net.ErrClosed after Close.
func (g *Gateway) begin(l *activeSet, p *activeFlow) (done func(), err error) {
	done, ok := l.add(p)
	switch {
	case ok:
		return done, nil
	case g.ctx.Err() != nil:
		return nil, net.ErrClosed
	}
	return nil, g.refuse(p.flow, "flood", fmt.Sprintf("more than %d at once", l.most))
}

// Attempt records what the network stack refused by itself, count times since it last said so. kind
// is the entry's.
func (g *Gateway) Attempt(kind, detail string, count int) {
	e := policy.EntryFor(policy.Flow{}, refused(kind, detail))
	if count > 1 {
		e.Count = count
	}
	g.audit.record(e)
}
