package gateway

import (
	"strings"

	"agentbox/policy"
)

// The types of DNS questions that programs ask before they connect to a name. Others (TXT, NULL,
// ANY and so on) would only serve tunnels, since no resolver is asked.
const (
	typeA     = 1
	typeAAAA  = 28
	typeSVCB  = 64
	typeHTTPS = 65
)

// Lookup decides about a DNS question. No resolver is asked: an allowed name gets an address that
// stands for it. name is in lower case, without a final dot.
//
// qtype is DNS's number. nil means that the name may be resolved, or for other types that it exists
// and has no such record, or that requests to it are refused (policy.Answers). A *Refusal denies it
// and was logged.
func (g *Gateway) Lookup(name string, qtype uint16) error {
	f := policy.Flow{Proto: policy.DNS, Name: name}
	v := g.rules().name(name)
	if v.Kind != "" { // not a name, so it is not logged
		return g.deny(policy.Flow{Proto: policy.DNS}, v)
	}
	if !v.Allow {
		refusal := g.deny(f, v)
		if g.policy.Load().Answers(f) {
			return nil
		}
		return refusal
	}
	switch qtype {
	case typeA, typeAAAA, typeSVCB, typeHTTPS:
	default:
		g.refuse(f, "dns-type", "only addresses are answered")
		return nil // the answer is empty, and programs go on with their other questions
	}
	if isWildcard(v.Rule) && !g.lookup.allow(name) {
		return g.refuse(f, "dns-rate", "too many new names below a wildcard in a short time")
	}
	return nil
}

// isWildcard tells whether the rule lets the box choose the name.
func isWildcard(rule string) bool {
	r, err := policy.ParseRule(rule)
	return err == nil && strings.HasPrefix(r.Host, "*")
}
