// Package task keeps tasks: commands that are each tried in a box of their own, one after the other
// as this machine has room, with evidence and exactly one result. It makes no boxes and runs no
// commands: it asks for both through small interfaces (Boxes, Jobs, Snapshotter, Collector,
// EvidenceSource), which the daemon implements over host, job, snapshot and artifact.
//
// Queue is what the daemon runs. Submit and Begin write a task down; the queue begins it when there
// is room and follows each attempt to its end (attempt.go): box, job, the work kept (work.go), the
// result, the box removed. A held task (held.go) has a client that waits for it at a terminal;
// `run` is one. Store reads all of it from files, for everybody.
//
// What is known is in files, so that the next daemon goes on where the last one was killed. An
// attempt names its box and its job before either is made: each step is then found done, or done
// now, and is never done twice. A result is written once, when all evidence is there, and only then
// may the box go; a box with work that could not be kept stays for a person. What no file says, and
// a new daemon does not know, is in a watch: progress, holders, the holder's environment.
//
// Queue.mu and watch.mu are never held together, nor while a box or a job is asked for anything.
//
//	state of a task     follows from
//	queued              no attempt, or the last one failed or was lost and may be repeated
//	running             an attempt without a result
//	cancelled           the file "cancelled", before an attempt had another result
//	anything else       the result of the last attempt
//
// The files are described at Store, and in docs/internals/formats.md.
package task
