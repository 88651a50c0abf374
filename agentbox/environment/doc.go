// Package environment is everything one does in a place where code runs, over one SSH connection:
// commands with or without a terminal, files in both directions, forwarded ports, and a relay that
// shares the connection with many local clients. It does not know what is at the other end (a
// microVM, a gVisor sandbox, a Lima instance, a remote host) and starts none.
//
// What comes from the other end is untrusted: names, sizes and order of messages are checked,
// nothing waits for an answer without a deadline, and no file is written outside the directory the
// caller named.
//
// Beside what RFC 4254 defines, a session channel may carry two requests that the guest agent knows
// and others refuse:
//
//	argv@agentbox  wants a reply; the payload is JSON {"argv":[...],"dir":"...","env":{...},"user":"..."}. It runs exactly
//	               these arguments, without a shell between; no arguments mean the user's login shell.
//	user@agentbox  wants no reply; the payload is one SSH string. It goes before any other request of the session and says
//	               as whom the rest of it happens; the relay sends it, as the name its client logged in with.
//
// and it knows the subsystem harvest@agentbox besides sftp: see Export.
package environment
