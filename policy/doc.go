// Package policy decides what may leave a box: rules, the verdict on a flow, the secrets a box may
// use without seeing them, and the audit log of every attempt. It knows nothing of machines,
// sockets or streams: policy/gateway enforces what is decided here, and where the values of secrets
// come from is policy/secrets' affair.
//
// Words: a flow is one attempt to reach something; a rule is one line that allows or denies some
// flows; a layer is the rules of one source (the organisation, the user, the repository, the
// preset); a verdict is the answer, with the rule that gave it.
//
// A File is a policy as a person writes it. Compose makes a Spec of all files that concern a box,
// New a Policy of that, and Policy.Decide answers a Flow. host/egress does the first two for each
// box, its supervisor holds the Policy, and the gateway in it asks.
//
// What always holds, whatever the files say:
//
//   - nothing is allowed unless a rule allows it, and a rule that denies wins over any that allows,
//     of whatever layer;
//   - an organisation's file only ever narrows: what others allow beyond it is denied
//     (Layer.Bound);
//   - private addresses, the host's own among them, are reached by explicit grant only, link-local
//     and metadata addresses by none (Classify);
//   - where something is not known yet, or servers may read it in two ways, a rule that allows does
//     not cover it and one that denies does.
//
// Names and paths are compared in one canonical form (CanonicalName, CanonicalPath), and what has
// none is refused: a difference between our reading and a server's would be a way around the rules.
// All of this is pure: no clock, no network, no file but those of the audit log (Log, Read, Verify,
// Follow; docs/internals/network.md has its lines). A Policy never changes and may be used by any
// number of goroutines.
package policy
