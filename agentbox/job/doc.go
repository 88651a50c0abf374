// Package job keeps the jobs of a box: commands that go on when nobody watches. It records their
// output, lets any number of clients attach, and remembers how each job ended. It starts no machine
// and knows no daemon: it runs in the box's supervisor. Readers do not need it, as everything is in
// files.
//
// Hub is the supervisor's part: it starts jobs in the guest, follows each over a channel of its own
// (follow.go), and serves the clients that attach (client.go). Read, List and Transcript are for
// everybody else: the daemon, which answers questions about jobs, and tasks.
//
// A job belongs to its box, not to a machine. It goes on in a machine that was saved and restored,
// where the next hub adopts it (Adopt); if its machine is gone, the job is lost. Its directory has
//
//	job.json        Record: what was started; it never changes
//	output-N.cast   the transcript, asciicast v2, in parts of bounded size (cast.go)
//	position.json   how far a job that was saved with its machine is recorded
//	exit.json       End: how it ended; written last, so it says that everything else is complete
//
// Bounds: a transcript takes some 8 MiB at most, whatever the job writes; a client that is slow
// loses output and learns how much; a box keeps the last 50 jobs that have ended. What the guest
// says (numbers, frames, names) is data: it is clamped, and made printable before it is kept.
//
// vmm/guest/protocol has what crosses between hub and guest.
package job
