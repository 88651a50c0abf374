// Package roster keeps a team's member list on one machine: it makes and joins teams, signs
// entries, and exchanges lists with other peers. It does not judge entries, which mesh/identity
// does, and ends no connection: Config.Changed gets each new list, and mesh.Mesh passes it on.
//
// A Roster is the list of one home, whether or not the machine is in a team. Init and Join begin
// one, Invite and Answer let others in, SetRoles, Revoke and Renew sign, Sync and Spread exchange
// lists with peers, AnnounceLeave and Forget end it.
//
// Files of its directory:
//
//	members.json   the list, see mesh/identity
//	root.key       the seed of the root key; only where the team was made
//	invites.json   open invitations of this machine
//	left.json      the signed entry by which this machine left its last team
//
// Peers exchange lists whenever they see in gossip that the other has a different one, and a change
// is pushed at once to everybody who is here. Lists are merged, so the order does not matter. Every
// list is on disk before anybody is told of it.
//
// Ordinary members are added for half a year. Every admin that is awake renews those with less than
// half of that left; admins stay until they are revoked. So a machine that hears of no revocation,
// because it was cut off, does not trust others forever.
//
// Locks: Roster.changing is held during a change of the list or of the invitations, including the
// call of Config.Changed. mu is held for a few lines, and never while waiting for changing.
package roster
