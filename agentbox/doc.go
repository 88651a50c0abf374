// Package agentbox holds the domain types every other package speaks in: boxes, states, leases,
// digests and errors. It does nothing: it imports the standard library only and touches neither
// files nor processes.
package agentbox
