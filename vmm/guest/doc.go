// Package guest is the host's side of the guest agent: it carries the agent's program, begins a
// guest's life and offers what the agent can do as methods with deadlines. It starts no machine,
// and trusts nothing that comes from a guest.
//
// The supervisor calls Connect with a machine's stream when the machine was booted, restored or
// resumed, and uses the Client for as long as the machine runs; commands, files and ports go over
// the Client's SSH connection (agentbox/environment). A life ends when the next Hello is sent on
// the same stream, or with the machine: the stream itself belongs to the machine and survives every
// Client.
//
// What a guest says is bounded and cleaned before it gets into a message, and no wait for it is
// without a limit: a guest that is stopped, lies or floods costs its own box and nothing else. The
// words of the conversation are in vmm/guest/protocol, the other side in vmm/guest/agent.
package guest
