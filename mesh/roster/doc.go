// Package roster keeps a team's member list on one machine: it makes and joins teams, signs
// entries, and hands the newest list to other peers. It does not judge entries, which mesh/identity
// does, and ends no connection: Config.Changed tells of each new list, and mesh.Mesh hands it on.
//
// A Roster is the list of one home, whether or not the machine is in a team. Init and Join begin
// one, Invite and Answer let others in, SetRoles, Revoke and Renew sign, Sync and Spread exchange
// lists with peers, Farewell and Forget end it.
//
// Files of its directory:
//
//	members.json   the list, see mesh/identity
//	root.key       the seed of the root key; only where the team was made
//	invites.json   invitations of this machine that are not over
//	left.json      the signed entry by which this machine left its last team
//
// Peers exchange lists whenever they see in gossip that the other's is another, and a change is
// pushed to everybody who is here at once. Lists are merged, so the order does not matter, and
// every list is on disk before anybody is told of it.
//
// Ordinary members are added for half a year. Every admin that is awake renews those with less than
// half of that left; admins stay until they are revoked. So a machine that was cut off from all
// news of a revocation does not trust for ever.
//
// Locks: Roster.changing is held through a change of the list or of the invitations, Config.Changed
// included; mu for a few lines, and never while changing is waited for.
package roster
