// Package guest is the host's side of the guest agent: it carries the agent's program, begins a
// guest's life, and offers the agent's functions as methods with deadlines. It starts no machine,
// and trusts nothing that comes from a guest.
//
// The supervisor calls Greet with a machine's stream when the machine was booted, restored or
// resumed, and uses the Client for as long as the machine runs. Commands, files and ports go over
// the Client's SSH connection (agentbox/environment). A life ends when the next Hello is sent on
// the same stream, or with the machine, to which the stream belongs.
//
// Text from a guest is bounded and cleaned before it gets into a message, and every wait has a
// limit: a guest that is stopped, lies or floods hurts only its own box. The protocol is in
// vmm/guest/protocol, the other side in vmm/guest/agent.
package guest
