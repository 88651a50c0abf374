// Package ssh is places on other machines: a directory of an account that stock sshd serves, for
// machines with special hardware. Nothing of ours runs there. It has sessions, files and ports; it
// enforces no policy and no limits, saves nothing and has no lease, so it lacks these abilities.
//
// The connection is what the user's own ssh would make: `ssh -G` says to whom, with which keys and
// through which other machines, known_hosts decides about the machine, and the agent or a key file
// signs. No key is copied and no question is asked: what needs one is refused with a line that says
// so.
//
// On the machine, .agentbox/boxes/<id> of the account has the workspaces. Here, the box's place.json
// is there while it has a place; so a machine that cannot be reached loses no box. What runs in a place
// is found by a variable of its environment (place.BoxVariable) where the machine has /proc, and is
// ended with the place; elsewhere only sessions are. Clients reach it at the box's socket, where this
// process passes their channels on (environment.Relay), so their sessions end with this process.
//
// What the machine answers is data: it is bounded, and printed.
package ssh
