// Package git runs the host's git over repositories that a box, or the author of an archive, may
// have written. It can neither fetch nor start another program, whatever a configuration names. It
// knows nothing of boxes, and what the output means is its callers' business: agentbox/workspace
// and agentbox/snapshot. Nothing else starts git on this host.
//
// There are two ways to run it. Over the checkout of a person git reads its configuration, with
// every key that names a program overridden (Call.Personal). Everything else is read through a
// View: a git directory of our own, with a configuration of our own, so that git never sees the
// other one. Commits, Commit and Pack are what callers ask of either kind of Repository.
//
// ParseConfig reads a configuration as git does, without running it: agentbox/project needs no more.
// OpenPlain, ReadPlain and ReadDir are for files of git directories that we read ourselves: no
// link, no pipe, no device, and a bound. They and the other functions may be called from any
// goroutine.
//
// A new version of git can bring new keys that start a program: environ.go has all that are known,
// and is where one is added.
package git
