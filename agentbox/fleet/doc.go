// Package fleet runs tasks of one machine on others of its team. It makes no boxes and decides no
// policy: a worker's own queue runs what it takes, as a task of its own.
//
//	owner   the machine on which a task was submitted. It alone decides: attempts are numbered, and
//	        each has one result, which the owner writes once (package task)
//	worker  a machine that took an attempt: its lease
//	keeper  a builder to which an owner gave an attempt, to be its owner while the first one sleeps
//	        (Owner.Transfer). Its lease does not expire; it looks for a worker by a lease of its own, so
//	        there are two leases in a row, each with its fence
//	fence   the number of a lease of an attempt, one higher for each. Whoever has an older one is told
//	        so, and stops
//
// The owner offers a few attempts of each kind in its catalogue. A worker that finds one, and whose owner
// allows it (package idle), asks for the lease of it or of another one like it, in turn of the owners
// (Choose, Turns); what follows is questions of the worker to the owner, on the mesh's service Service,
// each on a stream of its own:
//
//	claim                the lease, of which attempt, and what to do
//	manifest, export     the source, of which only what the worker lacks is sent (package source)
//	beat                 it goes on; what the command wrote since; the answer may be to stop, and says when
//	                     the next one is due. It has a connection that stays (lines)
//	secret               the value of a secret that the task was granted, for one request of its box
//	save                 a snapshot of the box, each time the worker took one. The next lease goes on
//	                     from the last one: its worker gets a source of it (TaskSpec.Continue)
//	finish               the result, the transcript and a pack of the commits; the answer comes when
//	                     all of it is on the owner's disk
//
// A worker beats seldom while many run for the owner: gossip sees whether it is there. One that is late, or
// that gossip misses, is called (askCall). Without a beat a lease is over soon after gossip missed the
// worker, or LeaseTime after the beat was due (Heard), and the attempt is offered again, at most MaxLeases
// times: a task that takes machines down with it is lost then. Over, too, is the lease of a machine, or
// keeper, that is called and has no such task, as it was killed while it took it (Owner.Lacks). An owner that
// restarts reads the lease from the attempt's directory, calls its worker, and waits for LeaseTime. A worker
// that restarts finds its tasks in its queue, each with its origin, and goes on.
//
// The owner reaches the box meanwhile, on BoxService: it logs in, follows the output, and asks for a
// snapshot of now. A worker whose own user comes back stops the boxes of others at once (place.Halter),
// takes a last snapshot of each, and returns the lease.
//
// Nothing that a worker says is believed but by whose lease it is: states are checked, texts are
// printable and short, changes are computed from the commits, cost is that of the owner's own rates.
// A worker gets no secret's value but for a request at hand, and gives none of its own: its boxes for
// others are foreign (api.UpRequest), with what the owner lends (policy.Loan).
package fleet
