// Package task keeps tasks: commands that are each tried in a box of their own, in turn as this
// machine has room, with evidence and exactly one result. It makes no boxes and runs no commands:
// it asks for both through small interfaces (Boxes, Jobs, Snapshotter, Collector, EvidenceSource),
// which the daemon implements with host, job, snapshot and artifact.
//
// The daemon runs a Queue. Submit and Begin record a task; the queue begins it when there is room
// and follows each attempt to its end (attempt.go): box, job, the work kept (work.go), the result,
// the box removed. A foreground task (foreground.go) has a client that waits for it at a terminal; `run` is
// one. Anybody can read all of it from files, by Store.
//
// What is known is in files, so that the next daemon goes on where the last one was killed. An
// attempt names its box and its job before either is made, so each step is either found done or
// done now, and never done twice. A result is written once, when all evidence is there, and only
// then may the box go; a box with work that could not be kept stays for a person. A watch holds
// what is in no file, and what a new daemon does not know: progress, holders, the holder's
// environment.
//
// Queue.mu and watch.mu are never held together, nor while a box or a job is asked for anything.
//
//	state of a task     follows from
//	queued              no attempt, or the last one failed or was lost and may be repeated
//	running             an attempt without a result
//	cancelled           the file "cancelled", before an attempt had another result
//	anything else       the result of the last attempt
//
// Files of tasks/<task>/, written by the daemon alone:
//
//	task.json                    Task; never changed
//	cancelled                    nobody wants the task any more, with the limit that its client saw
//	released                     the client that waited for the task left it running
//	delivered                    the owner of the task, another machine, has its result
//	attempts/<n>/attempt.json    names its box and its job; written before either is made
//	attempts/<n>/result.json     agentbox.Result, written once and last
//	attempts/<n>/saved.json      the last snapshot of its box, until there is a result
//	attempts/<n>/lease.json      which machine runs it, if another one does; see package fleet
//	attempts/<n>/services/       the last 256 KiB of each service's log
//	attempts/<n>/artifacts/      what `artifacts:` selects, under its names in the workspace
//	attempts/<n>/artifacts.dsse.json  the statement about them, see agentbox/artifact
//	attempts/<n>/transcript.cast the whole transcript, asciicast v2
//	attempts/<n>/timeline.jsonl  one line per event
package task
