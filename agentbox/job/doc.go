// Package job keeps the jobs of a box: commands that go on when nobody looks. It records what they
// write, lets any number of clients attach, and remembers how they ended. It starts no machine and
// knows no daemon: it lives in the box's supervisor. A reader needs none of it, as everything is in
// files.
//
// Hub is what the supervisor has: it starts jobs in the guest, follows each over a channel of its
// own (live.go), and serves the clients that attach (client.go). Read, List and Transcript are for
// everybody else: the daemon, which answers questions about jobs, and tasks.
//
// A job belongs to its box, not to a machine. It lives on in a saved machine, and the next hub
// takes it up (TakeUp); where its machine is gone it is lost. Its directory has
//
//	job.json        Record: what was started; it never changes
//	output-N.cast   the transcript, asciicast v2, in parts of bounded size (cast.go)
//	position.json   how far a job that was saved with its machine is recorded
//	exit.json       End: how it ended; written last, so its presence says that all else is complete
//
// Bounds: a transcript takes at most some 8 MiB whatever the job writes, a client that is slow
// loses output and is told how much, a box keeps the last 50 jobs that have ended. What the guest
// says (numbers, frames, names) is data: it is clamped, and made printable before it is kept.
//
// The formats are in docs/internals/formats.md, what crosses between hub and guest in
// vmm/guest/protocol.
package job
