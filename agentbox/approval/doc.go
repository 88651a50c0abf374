// Package approval keeps what people decided about the boxes of each repository: the approved copy of the repository's own
// policy, the user's rules and presets, and where secrets are kept. It reads a repository's file only to show what would
// change: no box is governed by a file that its agent can write.
package approval
