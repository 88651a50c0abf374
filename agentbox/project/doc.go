// Package project determines which project a checkout belongs to, and stores what people decided
// about each: the approved copy of the repository's own policy, the user's rules and presets, where
// secrets are kept, and which registries this machine uses. It runs no git and follows nothing that
// a repository contains. It reads a repository's files only to show what would change: no box is
// governed by a file that its agent can write.
//
// Identify and IsDefaultBranch read the git directory of a checkout (identify.go, branch.go). A
// Project's name is the canonical URL of its origin (url.go). Store holds what people decided,
// below policy/ in the home (agentbox/home has the names). Review compares what a repository asks
// for with what was approved, and Approve records a person's decision. Registries remembers what
// this machine's tools report about their registries. The callers are agentbox/host with its
// packages, and the daemon.
//
// Invariants: Two checkouts with one name share approvals, rules and secrets. In doubt whether two
// checkouts are one project, they are two. Nothing in a work tree, and nothing that a commit
// changes, can change which project it is. An approved document is named by its digest, and is
// ignored if its contents do not match. Values of secrets are not stored here (policy/secrets).
//
// Only the daemon writes, and a mutex orders its writers. Files are replaced as a whole
// (home.Policy names them).
package project
