// Package gossip says which members of the team are here now, and spreads a few bytes about each.
//
// It is memberlist (SWIM) on a transport of our own: packets are datagrams and streams are streams
// of connections that mesh/wire authenticated. A node's name is its PeerID, so equal host names do
// no harm, and its address in memberlist is made from its PeerID, so memberlist never sees a real
// one: where a peer is, is said by its signed Meta and by the connections themselves.
//
// Whoever is not on the member list cannot be connected to, and what anybody says about it is not
// taken: NotifyAlive refuses names that are not on the list, and Meta that its peer did not sign.
// Limits of memberlist are kept here, with an error and a counter each: a Meta above 512 bytes
// would panic, a packet above its size would be lost in silence, a state exchange has no useful
// bound.
//
// What it will not do: it carries no payload but Meta. Catalogues and member lists are fetched over
// services of their own by whoever sees in a Meta that there is something new.
package gossip
