// Package team joins this machine's store to those of its team: what the team may have is offered
// in this machine's catalogue, what others offer is found for who needs it, one machine at a time
// makes what all will use, and what was made by who is no builder any more goes.
//
// Whose word counts: only names signed by members with the role builder are believed. Whoever has
// pieces may send them: they are verified by digest.
//
// What it will not do: it starts no machines and runs nothing; it knows no boxes.
package team
