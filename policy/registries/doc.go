// Package registries finds out which hosts this machine is configured to take packages and code
// from: the list behind the preset balanced. It names no registry itself: whatever it finds is said
// by the machine's files and tools, by an index that they name (files.go), or by the distribution's
// tools in a clean box (questions.go).
//
// A Machine is where to look, Host the one that runs us; tests make others of a map of files.
// Files, Tools and Remotes look, each giving what was Found: a rule and who says so. Layer makes
// the preset's layer of that, Variables and AptProxies the configuration by which tools in a box
// use the same places. agentbox/project asks and remembers the answers, agentbox/host/egress makes
// policies of them; what a box or repository says has no part in it, but for the remotes of the
// user's own checkout.
//
// What is missing, fails or makes no sense adds nothing and is no error: a machine without npm has
// no npm registry. Only an answer that did not come in time is told, so that it is not remembered
// as none.
package registries
