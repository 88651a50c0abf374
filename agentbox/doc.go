// Package agentbox holds the vocabulary that every other package speaks: boxes and their states,
// leases, limits, jobs, tasks, digests, errors and the progress of long operations. It decides
// nothing and keeps nothing. Of our own packages it imports what guests say (vmm/guest/protocol)
// and no other, so that the command line, the daemon, a supervisor and the leaves below them (vmm,
// cachestore, policy, mesh) can all use one set of types; agentbox/imports_test.go holds it to
// that.
//
// Everything here is either a comparable value (BoxID, JobID, TaskID, Digest, Limit), which has one
// text form that its Parse function reads back, or a struct whose JSON form crosses the API and is
// written into records. So fields are added and not renamed: a record of an earlier build must
// still be read. Durations are nanoseconds in JSON, sizes are bytes, times are RFC 3339.
//
// Facts are fields. The sentences that people read are made from them in one place, the package cli
// (sentences.go): errors, notes and records that cross a process carry an End, a Limit or a Problem.
package agentbox
