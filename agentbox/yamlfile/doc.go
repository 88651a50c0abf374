// Package yamlfile reads the YAML files that people write: agentbox.yaml and policies. A Reader
// continues after a mistake and reports all of them at once, each with its line, so that nobody has
// to run a command for each mistake. It does not know what the keys mean; its callers do.
//
// The files come with repositories and are untrusted. The package bounds the expansion of aliases
// (maxNodes) and what messages quote, and passes what is printed through agentbox.Printable. The
// caller must bound the size of a file.
package yamlfile
