// Package guest is the host's side of the guest agent: it carries the agent's program, begins a
// guest's life and offers what the agent can do as methods with deadlines. It starts no machine,
// and trusts nothing that comes from a guest.
package guest
