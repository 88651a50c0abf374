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
// Teams of mixed builds. A reader uses what it understands, and keeps and passes on the rest byte
// for byte, so that signatures stay valid. Builds up to 0e3ba6c8 do not: for one unknown record,
// role or field they refuse a whole catalogue or member list, and an announcement or a token of
// another length; an unknown frame is a strike. While a team may have such builds, a later one
//
//   - adds a kind of record in kinds of mesh/catalogue, which travels in Extra; also for a field
//     that a known kind lacks, or what a machine has to say of itself;
//   - adds fields to messages, which all builds skip;
//   - has no new roles or fields in member lists: what must restrict somebody can be no field that
//     others pass over;
//   - opens sessions with new frames as `blobs-2`, and falls back where that is refused.
//
// Files of its directory, besides those of mesh/roster:
//
//	settings.json   where to listen
//	addresses.json  where members were seen, to find them after a restart
//	catalogues/     see mesh/catalogue
package mesh
