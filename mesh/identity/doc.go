// Package identity says who is in a team: peers, the signed member list, and invitations. It opens
// no file and no connection: mesh/wire uses it to admit connections, mesh/roster keeps the list on
// disk and spreads it.
//
// A peer is its ed25519 key, which also signs the names in its store. A team is a root key, made by
// `agentbox mesh init`, and a List: one signed Entry per member and signer. The root key signs any
// entry. An admin (a role that only the root key gives) adds members that are no admins, and
// revokes them. A member signs that it leaves. Every entry is signed by itself, so two admins who
// change the list at the same time lose nothing: lists are merged, and all peers with the same
// entries come to the same result, without a clock (judge.go). A clock, the reader's own, says only
// whether a membership has expired.
//
// An Invite is what an admin gives to the owner of another machine: the team, where to ask, and a
// secret that is good for one entry.
//
// Values here are immutable and may be shared by goroutines. Everything that is decoded came from
// somebody else: it is bounded, it has one encoded form, and anything else is refused with code
// Corrupt (Invalid for what a person typed).
package identity
