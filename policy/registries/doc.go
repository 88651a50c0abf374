// Package registries finds out which hosts this machine is configured to take packages and code
// from: the list behind the preset balanced. It names no registry itself: everything comes from the
// machine's files and tools, from an index that they name (files.go), or from the distribution's
// tools in a clean box (questions.go).
//
// A Machine is where to look; HostMachine returns the one that runs us, tests make others of a map
// of files. FromFiles, FromTools and FromRemotes look, and each returns what was Found: a rule and
// its origin. Layer makes the preset's layer of that, Variables and AptProxies the configuration
// with which tools in a box use the same places. agentbox/project asks and remembers the answers,
// agentbox/host/egress makes policies of them. What a box or repository says plays no part, except
// for the remotes of the user's own checkout.
//
// What is missing, fails or makes no sense adds nothing and is no error: a machine without npm has
// no npm registry. Only an answer that did not come in time is reported, so that it is not
// remembered as none.
package registries
