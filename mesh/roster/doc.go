// Package roster keeps a team's member list on one machine: it makes and joins teams, signs
// entries,
// and hands the newest list to other peers.
//
// Files of its directory:
//
//	members.json   the list, see mesh/identity
//	root.key       the seed of the root key; only where the team was made
//	invites.json   invitations of this machine that are not over
//
// Peers exchange lists whenever they see in gossip that the other's is another, and a change is
// pushed to everybody who is here at once. Lists are merged, so the order does not matter.
//
// Ordinary members are added for half a year. Every admin that is awake renews those with less than
// half of that left; admins stay until they are revoked. So a machine that was cut off from all
// news of a revocation does not trust for ever.
package roster
