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

// Config is what a gateway needs. Policy, CA and Audit are required. Its functions may be called
// concurrently.
type Config struct {
	Policy *policy.Policy
	// Values returns the present values of the policy's secrets; nil if there are none.
	Values policy.Values
	CA     *CA
	// Audit is called once for each flow, at its end, and for each refusal. It must not block for
	// long. It cannot fail: the caller handles a log that cannot be written.
	Audit func(policy.Entry)
	Roots *x509.CertPool // what upstream servers are verified with; nil means the host's
	// Resolve resolves names; nil means the host's resolver. Its answers are not trusted: each
	// address is decided about before it is dialled.
	Resolve Resolver
	// Proxy chooses this host's way out for requests and for TLS; nil means direct connections.
	Proxy Proxy
	// Tools connects to the tool servers of this host on behalf of the box: policy.ToolsName leads
	// there. nil: there are none.
	Tools func(context.Context) (net.Conn, error)
	// Usage is called with the usage that a model's answer reports, and the model's name in it,
	// where the traffic is decrypted. If it is set, servers are asked for codings that can be read
	// here. It must not block; nil disables it.
	Usage func(model string, t agentbox.Tokens)
}

// Gateway carries the flows of one box. Its methods may be called concurrently.
type Gateway struct {
	// cfg is what New got; policy is the present policy.
	cfg    Config
	policy atomic.Pointer[policy.Policy]
	audit  *recorder
	// lookup limits new names below wildcards.
	lookup *nameLimiter
	conns  *activeSet // connections of the box
	calls  *activeSet // requests within them
	outs   *activeSet // outgoing connections, including idle ones
	// up dials, web serves requests.
	up  *upstream
	web *web

	decoders decoders // of what models answer

	// ctx ends with Close. wg has the recorder's goroutine. Flows run in goroutines of the network
	// stack and of web; conns, calls and outs wait for them.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// How many connections a box may have open at once, and requests on them. More are refused.
const (
	maxConns = 2048
	maxCalls = 4096
	maxOuts  = 2 * (maxConns + maxCalls) // in case of our own bugs: each belongs to one of the former, or is idle
)

// New makes a gateway that the box can use at once. Close ends it.
func New(cfg Config) *Gateway {
	g := &Gateway{cfg: cfg, lookup: newNameLimiter(), conns: newActiveSet(maxConns), calls: newActiveSet(maxCalls), outs: newActiveSet(maxOuts), decoders: newDecoders()}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.policy.Store(cfg.Policy)
	g.audit = newRecorder(cfg.Audit)
	g.wg.Go(func() { g.audit.run(g.ctx) })
	g.up = newUpstream(g)
	g.web = newWeb(g)
	return g
}

// Close ends every flow and returns when all are over and recorded. Later ones are refused. A
// connection waits for its requests and these for their outgoing connections, so they end in this
// order.
func (g *Gateway) Close() {
	g.cancel()
	g.conns.close()
	g.web.close()
	g.calls.close()
	g.up.renew()
	g.outs.close()
	g.wg.Wait()
	g.audit.flush()
}

// SetPolicy changes the policy and ends what the new one denies: connections and requests, those to
// addresses that it denies, those that carry a secret which may no longer be sent there, and unread
// connections to places where requests are decided from now on.
//
// Every flow is registered first and decided afterwards, so a change of policy either finds it or
// is part of its decision.
//
// SetPolicy returns when everything that must end was told to, and logs each as policy-changed.
// No later request uses a connection of before, so that it is dialled under the new policy. One that
// was ended a moment ago would answer it with a 502.
func (g *Gateway) SetPolicy(p *policy.Policy) {
	g.policy.Store(p)
	g.up.renew() // after Store, so that all of its connections are dialled under the new policy
	mayStay := func(q *activeFlow) bool {
		v := q.review(p)
		if !v.Allow {
			v.Kind = policyChanged
			g.deny(q.flow, v)
		}
		return v.Allow
	}
	g.calls.review(mayStay)
	g.conns.review(mayStay)
	g.outs.review(mayStay)
}

// policyChanged is the kind of flows that a change of policy ended.
const policyChanged = "policy-changed"

// mayCarrySecrets tells whether a policy lets a flow carry the secrets that it carries.
func mayCarrySecrets(p *policy.Policy, q *activeFlow) bool {
	for _, name := range q.secrets {
		if !slices.ContainsFunc(p.SecretsFor(q.flow), func(s policy.Secret) bool { return s.Name == name }) {
			return false
		}
	}
	return true
}

func (g *Gateway) rules() Evaluator { return Evaluator{g.policy.Load(), g.cfg.Resolve} }

// Accept decides about a flow when its first packet arrives. Proto is TCP or UDP, Name what the box
// looked up, and Addr an address for which no name was looked up. A *Refusal denies it and was
// logged. Stream and Packets decide again once the flow is registered.
func (g *Gateway) Accept(f policy.Flow) error {
	if v := g.rules().connect(f); !v.Allow && !g.policy.Load().Answers(f) {
		return g.deny(f, v)
	}
	if g.conns.count() >= g.conns.limit {
		return g.refuse(f, "flood", fmt.Sprintf("more than %d connections at once", g.conns.limit))
	}
	return nil
}

// deny records a refusal and returns its error.
func (g *Gateway) deny(f policy.Flow, v policy.Verdict) *Refusal {
	v.Allow = false
	g.audit.record(policy.EntryFor(f, v))
	return &Refusal{Flow: f, Verdict: v}
}

// refuse denies for a reason that no rule can change.
func (g *Gateway) refuse(f policy.Flow, kind, reason string) *Refusal {
	return g.deny(f, refused(kind, reason))
}

// begin registers a flow; the caller must call done at its end. *Refusal if there are too many,
// net.ErrClosed after Close.
func (g *Gateway) begin(l *activeSet, p *activeFlow) (done func(), err error) {
	done, ok := l.add(p)
	switch {
	case ok:
		return done, nil
	case g.ctx.Err() != nil:
		return nil, net.ErrClosed
	}
	return nil, g.refuse(p.flow, "flood", fmt.Sprintf("more than %d at once", l.limit))
}

// Attempt records what the network stack refused by itself, count times since it last reported it.
// kind is the entry's.
func (g *Gateway) Attempt(kind, detail string, count int) {
	e := policy.EntryFor(policy.Flow{}, refused(kind, detail))
	if count > 1 {
		e.Count = count
	}
	g.audit.record(e)
}
