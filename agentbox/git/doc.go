// Package git runs the host's git on repositories that a box, or the author of an archive, may have
// written. It never fetches and never lets git start another program, whatever a configuration
// names. It knows nothing of boxes and does not interpret git's output: its callers do,
// agentbox/workspace and agentbox/snapshot. No other package starts git on this host.
//
// There are two ways to run git. On a user's own checkout, git reads the checkout's configuration
// with every key that names a program overridden (Call.UserConfig). Everything else is read through
// a View: a git directory of our own with our own configuration, so that git never sees the other
// one. Commits, Commit and Pack work on either kind of Repository.
//
// ParseConfig reads a configuration as git does, but without running git, which is enough for
// agentbox/project. OpenPlain, ReadPlain and ReadDir read files of git directories directly: they
// refuse links, pipes and devices, and ReadPlain bounds the size. All functions are safe for
// concurrent use.
//
// A new version of git may add keys that start a program. programs.go has all that are known, and
// its test fails for one that git documents and it lacks; environ.go overrides those that the host's
// git could use. ReadReftables reads refs that only newer gits know.
package git
