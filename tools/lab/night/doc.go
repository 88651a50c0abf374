// Package night simulates a night of a team: machines that fall asleep and wake up, and take the tasks of
// some members by the rules that the daemons use (fleet.Lease, fleet.Choose, fleet.Turns, fleet.Shown). It
// shows what is lost or done twice, how much of the idle time is used, who gets how much of it, and what a
// machine sends for that. It runs no task and has no network.
//
// Time goes in steps. In each, owners end leases whose worker is silent and change their catalogues, which
// everybody who is awake has in the next one; then machines, in another order each time, beat or ask for an
// offer.
package night
