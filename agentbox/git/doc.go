// Package git runs the host's git over repositories that a box, or whoever packed an archive, may
// have written. It can neither fetch nor start another program, whatever a configuration names. It
// knows nothing of boxes, and what the output means is its callers' business.
//
// There are two ways to run it. Over the checkout of a person git reads its configuration, with
// every key that names a program overridden (Call.Personal). Everything else is read through a
// View: a git directory of our own, with a configuration of our own, so that git never sees the
// other one.
package git
