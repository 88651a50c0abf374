// Package team joins this machine's store to those of its team: what the team may have is offered
// in this machine's catalogue, what others offer is found where it is needed, one machine at a time
// makes what all will use, and what was made by somebody who is no builder any more goes.
//
// What it will not do: it starts no machines and runs nothing; it knows no boxes. Rooms of
// agentbox/host see it through small interfaces of their own; the daemon makes one Team, sets its
// fields, and gives its methods to the mesh (Attach, Changed) and to the store (Trusts, Wake).
//
// Whose word counts: only names signed by members with the role builder are believed. Any member
// that has pieces may send them: they are verified by digest.
//
// Asking: Image, Setup, Template and Kernel look into the catalogues, which are in memory, and then
// ask holders, each within a time in which the thing could not be made here. A team that is not
// there must not be felt: see reach. NotFound means that nobody offers it, Unavailable that
// somebody does and it does not come; callers make it themselves in both cases.
//
// Telling: Run writes into our catalogue what Sharing allows (offer), what this machine works on
// (tellContexts), and drops what came from members whose role was taken away (revoked.go). Claims
// keep two machines from making the same at once (claim.go); they save work and are no locks:
// nothing breaks when two do.
//
// Without a team every method is safe and finds nothing. All of it is in docs/mesh.md.
package team
