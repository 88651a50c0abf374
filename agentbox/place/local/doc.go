// Package local is the places of this machine: each has a supervisor process, which is the parent of
// a machine that a vmm.Driver starts. The supervisor outlives this process, and enforces the policy,
// the lease and the limits without it.
//
// drivers opens the drivers, templates keeps what machines start from, supervisors starts and finds
// the processes, control has the calls that they answer, supervisor is the process itself. Nothing
// outside of this tree knows any of these, nor the files of a box (files.go), but for what
// agentbox/imports_test.go lists.
package local
