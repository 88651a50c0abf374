// Package environment is everything that one does in a place where code runs, over one SSH
// connection: commands with or without a terminal, files in both directions, forwarded ports, and a
// relay that shares the connection with many local clients. It does not know what is at the other
// end (a microVM, a gVisor sandbox, a remote host) and starts none.
//
// NewClient makes the connection over any net.Conn, Open over the socket of a box on this machine.
// Exec runs a Command, Attach joins a job, OpenFiles begins an SFTP session whose Files copy
// (CopyTo, CopyFrom, TarTo, TarFrom) and follow a log, Export takes what setup made, Forward opens
// a port. The Relay and its bridges are the server side: they run in the supervisor, which alone
// has a connection to the guest. Most callers of the rest are in the command line and the daemon,
// and reach the box through such a relay.
//
// The other end is not trusted: names, sizes and the order of messages are checked, everything that
// is kept is bounded, every answer has a deadline, and no file is written outside the directory
// that the caller named.
//
// Errors are those of agentbox with a code: Unavailable when the other end did not answer or the
// connection was lost, Corrupt when what it said cannot be true, Conflict when something exceeds a
// bound. Every function with a context returns after it ends, even when the other end is silent; a
// goroutine that a library keeps waiting ends with its connection.
//
// Beside what RFC 4254 defines, a session channel may carry two requests that the guest agent knows
// and other servers refuse:
//
//	argv@agentbox  wants a reply; the payload is JSON {"argv":[...],"dir":"...","env":{...},"user":"..."}. It runs exactly
//	               these arguments, without a shell between; no arguments mean the user's login shell.
//	user@agentbox  wants no reply; the payload is one SSH string. It precedes all other requests of
//	               the session and names the user that the session runs as; the relay sends the name
//	               that its client logged in with.
//
// The guest agent also has the subsystems export@agentbox and watch@agentbox beside sftp: see Export and
// Watch. Relays know one
// more type of channel, AttachChannel.
package environment
