// Package team shares this machine's store with its team. It offers what the team may have in this
// machine's catalogue, finds what the others offer, lets one machine at a time make what all will
// use, and drops what was made by members that are no longer builders.
//
// It does not start machines, runs nothing, and does not know boxes. The packages of agentbox/host
// see it through small interfaces of their own. The daemon creates one Team, sets its fields, and
// passes its methods to the mesh (Attach, Changed) and to the store (Trusts, Notify).
//
// Trust: only names that are signed by members with the role builder are believed. Any member may
// send the pieces, since they are verified by digest.
//
// Lookups: Image, Setup, Template and Kernel look into the catalogues, which are in memory. Then
// they ask holders, for less time than it would take to make the result here. An unreachable team
// must not slow anything down: see awaitReachable. NotFound means that nobody offers it.
// Unavailable means that somebody offers it but it cannot be fetched. In both cases the caller
// makes it.
//
// Announcements: Run writes into our catalogue what Sharing allows (offer) and what this machine
// works on (announceContexts). It drops what came from members that lost their role (revoked.go).
// Claims keep two machines from making the same result at the same time (claim.go). They save work
// and are not locks: nothing breaks if two machines make it.
//
// Without a team every method is safe and finds nothing. docs/mesh.md describes all of it.
package team
