// Package config finds and reads what a repository says its box should be: agentbox.yaml, a
// devcontainer.json, or what the repository's files suggest. It only reads. It does not resolve
// images, open files that the configuration names, or decide what a repository may ask for;
// agentbox/host/consent decides that.
//
// Load is the entry point and returns a Config. A Config is complete, with a default for every
// key that the file omits, so callers need not know the defaults. LoadAt finds the file that
// Load would read. Write turns a detected configuration into an agentbox.yaml (agentbox init).
// ParseSize and FormatSize define the notation of sizes in files and flags.
//
// Both file formats become one tree of yaml.Nodes with line numbers. One decoder reads the tree
// (yamlfile.Reader) and reports all mistakes at once.
//
// The file came with the repository and is untrusted. Its size (maxFile) and depth (maxDepth)
// are bounded here; yamlfile bounds the expansion of aliases and the length of quotes in
// messages. Paths that lead out of the repository are refused. Fuzz targets check these
// invariants. docs/configuration.md describes the keys, and a test compares it with topLevel.
package config
