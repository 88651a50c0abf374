package gateway

import (
	"strings"

	"agentbox/policy"
)

// Types of DNS questions that programs ask for a name they will connect to. Whatever else is asked
// (TXT, NULL, ANY, ...) is of use for tunnels only here, since nothing is asked of any resolver.
const (
	typeA     = 1
	typeAAAA  = 28
	typeSVCB  = 64
	typeHTTPS = 65
)

// Lookup decides about a question to the resolver. Nothing is asked of any resolver: the answer to
// an allowed name is an address that stands for it. name is in lower case without the dot at its
// end.
//
// qtype is DNS's number. nil means that the name may be resolved, or for other types that it exists
// and has none of that; an error is a *Refusal, in the log.
func (g *Gateway) Lookup(name string, qtype uint16) error {
	f := policy.Flow{Proto: policy.DNS, Name: name}
	v := g.rules().name(name)
	if v.Kind != "" { // it is none, so it is not written down
		return g.deny(policy.Flow{Proto: policy.DNS}, v)
	}
	if !v.Allow {
		return g.deny(f, v)
	}
	switch qtype {
	case typeA, typeAAAA, typeSVCB, typeHTTPS:
	default:
		g.refuse(f, "dns-type", "only addresses are answered")
		// The name exists, and has none of that: programs that ask for more than addresses go on.
		return nil // an empty answer: the name exists
	}
	if wild(v.Rule) && !g.lookup.spend(name) {
		return g.refuse(f, "dns-rate", "too many new names below a wildcard in a short time")
	}
	return nil
}

// wild tells whether the rule leaves the choice of the name to the box.
func wild(rule string) bool {
	r, err := policy.ParseRule(rule)
	return err == nil && strings.HasPrefix(r.Host, "*")
}
