// Package supervisor is the process behind one running box: it starts the machine, greets the
// guest, serves SSH into it and obeys the daemon over a socket of its own. It decides nothing about
// boxes and outlives the daemon, so it does not know the daemon's state: it learns what it needs
// once, on standard input (Config), or by calls (control.go).
//
// It is the parent of one machine and ends with it; the machine ends with its supervisor. Both hold
// the box's lock, so a free lock means that neither exists. The supervisor does what only a process
// beside the machine can do: it relays SSH and jobs (start.go, jobs.go), forwards ports (ports.go),
// ends the box's network and enforces its policy (gate.go, guard.go), keeps the lease and the
// limits (lease.go, expiry.go, limits.go, meter.go, diskquota.go), sets the guest's clock and
// checks that it lives (link.go, keepalive.go), accounts for what was used (account.go,
// evidence.go), and saves the machine (control.go).
//
// It trusts nothing that the guest says where it matters: it measures usage from outside, and
// bounds the time and size of every answer it asks for. When it ends it leaves files in the box's
// directory: exit.json with the cause, the account, the audit log and the transcripts of jobs.
//
// There is one supervisor for each box, so it is built to be small: it runs on one thread and gives
// its memory back after each burst of work.
package supervisor
