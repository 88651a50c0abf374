// Package project tells which project a checkout belongs to, and keeps what people decided about
// each: the approved copy of the repository's own policy, the user's rules and presets, where
// secrets are kept, and which registries this machine uses. It runs no git and follows nothing that
// a repository contains. It reads a repository's file only to show what would change: no box is
// governed by a file that its agent can write.
//
// Of and Default are about a checkout, and read its git directory (of.go, branch.go);
// a Project's name is the canonical URL of its origin (url.go). Store is what people decided, below
// the home's policy/ (agentbox/home has the names). Review compares what a repository asks for with
// what was approved, Approve takes the word of a person. Registries remembers what tools of this
// machine say about theirs. Callers are agentbox/host, its rooms and the daemon.
//
// Invariants. Two checkouts with one name share approvals, rules and secrets, so where it is in
// doubt whether two are one project they are two. Nothing in a work tree, and nothing that a commit
// changes, can change which project it is. An approved document is named by its digest, and one
// that is not what its name says is none. Values of secrets are not here (policy/secrets).
//
// One process writes, the daemon; a mutex in it orders its writers. Files are replaced as a whole.
// Their forms are in docs/internals/formats.md.
package project
