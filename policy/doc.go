// Package policy decides what may leave a box: rules, the verdict on a flow, the secrets a box may
// use without seeing them, and the audit log of every attempt. It knows nothing of machines,
// sockets or streams: policy/gateway enforces the decisions, and policy/secrets gets the values of
// secrets.
//
// Terms: a flow is one attempt to reach something; a rule is one line that allows or denies some
// flows; a layer is the rules of one source (the organisation, the user, the repository, the
// preset); a verdict is the answer, with the rule that gave it.
//
// A File is a policy as a person writes it. Compose makes a Spec of all files that concern a box,
// New makes a Policy of that, and Policy.Decide answers a Flow. host/egress does the first two for
// each box, its supervisor holds the Policy, and the gateway in it asks.
//
// What always holds, whatever the files say:
//
//   - nothing is allowed unless a rule allows it, and a rule that denies wins over any that allows,
//     of whatever layer;
//   - an organisation's file only ever narrows: what others allow beyond it is denied
//     (Layer.Bound);
//   - private addresses, including the host's own, are reached by explicit grant only, link-local
//     and metadata addresses by none (Classify);
//   - a rule with a method or a path allows HTTP requests and nothing else;
//   - where something is not known yet, or servers may interpret it in two ways, a rule that allows
//     does not cover it and one that denies does.
//
// Names and paths are compared in one canonical form (CanonicalName, CanonicalPath), and refused if
// they have none: a difference between our interpretation and a server's would be a way around the
// rules. All of this is pure: no clock, no network, no file but those of the audit log (Log, Read,
// Verify, Follow; docs/internals/network.md has its lines). A Policy never changes and may be used
// concurrently.
package policy
