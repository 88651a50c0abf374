// Package mesh is one machine's part in a team: its member list, its connections, who is here, and
// what everybody has. It moves no images and knows nothing of boxes: mesh/exchange and
// agentbox/team do, over the connections that it provides.
//
// A Mesh composes the packages below it. The daemon opens one for its home, whether or not the
// machine is in a team. mesh/roster keeps the member list. While there is one, mesh/wire has the
// connections, mesh/gossip finds out who is here and announces a few bytes, mesh/catalogue has what
// everybody offers and claims, mesh/lan finds members on the local network. They do not know each
// other: Mesh passes a change of the list to all of them (listChanged), and fetches the list or
// catalogue that a peer announces (peerChanged).
//
// Without a team nothing listens and nothing is sent. A team that cannot be reached is no error of
// the machine's: Problem says why, and everything else works.
//
// Nothing here compares two clocks: who is here, and what is newer, follow from signed numbers and
// from this machine's own time (docs/internals/decisions.md, 22). ClockOffsets only shows people by
// how much other clocks are off.
//
// Files of its directory, besides those of mesh/roster:
//
//	settings.json   where to listen
//	addresses.json  where members were seen, to find them after a restart
//	catalogues/     see mesh/catalogue
package mesh
