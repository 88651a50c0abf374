// Package project tells which project a checkout belongs to, and keeps what people decided about
// each: the approved copy of the repository's own policy, the user's rules and presets, and where
// secrets are kept. It runs no git and follows nothing that a repository contains. It reads a
// repository's file only to show what would change: no box is governed by a file that its agent can
// write.
package project
