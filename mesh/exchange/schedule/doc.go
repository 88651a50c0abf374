// Package schedule decides, for one transfer, which peer is asked for which piece and when, and,
// for a peer that serves, what it sends next. It is told what happened and what time it is, and
// returns what to do: it opens no connection, starts no goroutine and reads no clock, so that a
// thousand nodes of it run in a simulation (tools/lab/simulation).
//
// A State is one transfer of a receiver: Want and Join say what is wanted and who is there; Picked,
// Progress, Received, Refused and Wrong what came of requests; Next returns what to do now. A Queue
// has what all sessions have asked a sender for: Push and Cancel, and Next for what to send.
// mesh/exchange holds both, and calls each from one goroutine at a time.
//
// Terms. A piece is a chunk of the blob, by its number. A holder of a piece is a peer that says it
// has it. A request that leaves the peer the choice among several pieces is an open one. To hedge
// is to ask a second peer for what the first one has not delivered in the time that it should have
// taken.
//
// The rules, in order of precedence:
//
//   - What somebody waits for (Demand) goes to the peer that is expected to deliver it first, and
//     is hedged.
//   - Soon comes before Rest, and in each the piece with the fewest holders first, so that no piece
//     depends on one peer for longer than it must.
//   - Of two holders drawn at random, the one that will deliver sooner is asked (power of two
//     choices, Mitzenmacher 2001): always asking the best one would make everybody ask the same.
//   - What only one peer holds is asked of it in open requests, and it sends what it has sent least
//     (Queue). So a single seed sends each piece once before it sends any twice, however many ask
//     it.
//   - When nothing is left to ask for, late pieces are asked of a second peer (end game).
//   - A peer that delivers nothing is set aside for a while, ever longer; one that sent wrong bytes
//     for a piece is not asked for that again.
//
// It trusts no peer: what one claims to have is tried, an answer counts only from the peer that was
// asked, and what comes counts when the caller has verified it (SetPresent).
package schedule
