// Package mesh is one machine's part in a team: its member list, its connections, who is here, and
// what everybody has. It moves no images and knows nothing of boxes: mesh/exchange and
// agentbox/team do, over the connections that it gives them.
//
// A Mesh puts the rooms below it together. The daemon opens one for its home, whether or not the
// machine is in a team: mesh/roster keeps the member list, and while there is one, mesh/wire has
// the connections, mesh/gossip says who is here and announces a few bytes, mesh/catalogue has what
// everybody offers and claims, mesh/lan finds members on the local network. None of them knows
// another but by what Mesh hands on: a change of the list goes to all of them (listChanged), and
// what a peer announces has its list or catalogue fetched (peerChanged).
//
// Without a team nothing listens and nothing is sent. A team that cannot be reached is no error of
// the machine's: Problem says why, and all else works.
//
// Nothing here compares two clocks: who is here, and what is newer, follow from signed numbers and
// from this machine's own time (docs/internals/decisions.md, 22). Clocks only shows people by how
// much others are off.
//
// Files of its directory, besides those of mesh/roster:
//
//	settings.json   where to listen
//	addresses.json  where members were seen, so that they are found again after a restart
//	catalogues/     see mesh/catalogue
package mesh
