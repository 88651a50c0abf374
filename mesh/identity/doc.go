// Package identity says who is in a team: peers, the signed member list, and invitations.
//
// A peer is its ed25519 key, the one that signs the names in its store. A team is a root key, made
// by `agentbox mesh init`, and a List: one signed Entry per member. The root key signs any entry;
// an admin (a role that only the root key gives) adds members that are no admins and revokes them;
// a member signs that it leaves. Because every entry is signed alone, two admins who change the
// list at the same time lose nothing: lists are merged, and every peer that has the same entries
// judges them alike, without a clock.
//
// What it will not do: it opens no file and no connection. mesh/wire uses it to admit connections,
// mesh/roster keeps the list on disk and spreads it.
package identity
