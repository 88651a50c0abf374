// Package supervisor is the process behind one running box: it starts the machine, greets the
// guest, serves SSH into it and obeys the daemon through a socket of its own. It decides nothing
// about boxes and survives the daemon, so it must not know the daemon's state: what it needs it is
// told once, on standard input (Config), or by calls (control.go).
//
// It is the parent of one machine, a life of the box, and ends with it; the machine ends with it.
// Both hold the box's lock, so a free lock means that neither is there. What only a process beside
// the machine can do is here: relaying SSH and jobs (start.go, jobs.go), forwarding ports
// (ports.go), the end of the box's network with its policy and audit log (gate.go, guard.go), the
// lease and the limits (lease.go, expiry.go, limits.go, meter.go, diskquota.go), the guest's clock
// and signs of life (link.go, alive.go), the account of what was used (account.go, evidence.go),
// and saving (control.go).
//
// Nothing that the guest says is believed where it matters: what is counted is measured from
// outside, and what is asked of the guest is bounded in time and size. What it leaves when it ends,
// it leaves in files of the box: exit.json with the cause, the account, the audit log, the
// transcripts of jobs.
//
// It is written to be small and to stand still: there is one for each box, so it runs on one thread
// and gives its memory back after each burst.
package supervisor
