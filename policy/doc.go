// Package policy decides what may leave a box: rules, the verdict on a flow, the secrets a box may
// use without seeing them, and the audit log of every attempt. It knows nothing of machines,
// sockets or streams: policy/gateway enforces what is decided here.
//
// Words: a flow is one attempt to reach something; a rule is one line that allows or denies some
// flows; a layer is the rules of one source (the organisation, the user, the repository, the
// preset); a verdict is the answer, with the rule that gave it.
package policy
