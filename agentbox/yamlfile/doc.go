// Package yamlfile reads the files that people write in YAML: agentbox.yaml and policies. A Reader
// goes on after a mistake and reports all of them at once, each with its line: somebody who writes
// such a file should not have to run a command for each. What the keys mean is for its callers.
//
// The files come with repositories, so they are data of strangers. What aliases stand for
// (maxNodes) and what messages quote is bounded, and what is printed passes agentbox.Printable; the
// size of a file is for callers to bound.
package yamlfile
