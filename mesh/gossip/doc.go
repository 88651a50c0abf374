// Package gossip says which members of the team are here now, and spreads a few bytes about each.
// It carries no payload but these (Meta): catalogues and member lists are fetched over services of
// their own by peers that see in a Meta that there is something new.
//
// It is memberlist (SWIM) on a transport of our own: packets are datagrams and streams are streams
// of connections that mesh/wire authenticated. A node's name is its PeerID, so equal host names do
// no harm, and its address in memberlist is made from its PeerID (placeOf), so memberlist never
// sees a real one: where a peer is, is said by its signed Meta and by the connections themselves.
//
// A Gossip is one machine's part. mesh.Mesh starts one when it begins to take part in a team, hands
// it each new member list (Admit), announces by it (Announce), and is told of every change
// (Config.Changed). Inside, transport is memberlist's network, a link what there is with one peer,
// delegate what memberlist calls.
//
// A peer that is not on the member list cannot be connected to, and what anybody says about it is
// not taken: NotifyAlive refuses names that are not on the list, and Meta that its peer did not
// sign. Limits of memberlist are kept here, with an error and a counter each: a Meta above 512
// bytes would panic, a packet above its size would be lost in silence, a state exchange has no
// useful bound.
//
// memberlist gives up on peers that were absent for long, and notices neither that a machine slept
// nor that it moved to another network; seek.go does.
package gossip
