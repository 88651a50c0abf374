// Package protocol is what the host and the guest agent say to each other before and beside SSH. It
// holds shapes and framing only, from the standard library: the agent, the host and fuzzers share
// it.
package protocol
