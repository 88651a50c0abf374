// Package agentbox holds the vocabulary that all other packages share: boxes and their states,
// leases, limits, jobs, tasks, digests, errors and the progress of long operations. It makes no
// decisions and stores nothing. Of our own packages it imports only vmm/guest/protocol, the
// messages that guests exchange. The command line, the daemon, a supervisor and the packages below
// them (vmm, cachestore, policy, mesh) can thus all use one set of types. agentbox/imports_test.go
// enforces this.
//
// Every type here is one of two things. Comparable values (BoxID, JobID, TaskID, Digest, Limit)
// have one text form, which their Parse function reads back. Structs have a JSON form, which
// crosses the API and is stored in records. Fields are therefore added but never renamed: this
// build must still read a record of an earlier one. In JSON, durations are nanoseconds, sizes are
// bytes and times are RFC 3339.
//
// Facts are fields. Package cli turns them into sentences for people, in one place (sentences.go).
// Errors, notes and records that cross a process carry an End, a Limit or a Problem instead.
package agentbox
