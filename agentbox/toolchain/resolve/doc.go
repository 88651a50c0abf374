// Package resolve plans how a box gets the tools that a repository's files ask for (package
// toolchain): from the distribution if its version satisfies the constraint, otherwise from the
// ecosystem's own package registry. It makes plans and runs nothing.
//
// ParseCandidates reads what the distribution has and ParseReleases what the npm registry has,
// Resolve makes a Plan of both and of the needs, and agentbox/host/setup runs Plan.Commands as root
// in a clean box. Fingerprint is an ingredient of the key of the resulting image.
//
// It is apart from package toolchain because only the daemon plans: ranges of versions cost each
// start of a program that links them half a millisecond.
package resolve
