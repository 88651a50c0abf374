// Package config finds and reads what a repository says its box should be: agentbox.yaml, a
// devcontainer.json, or what the files of the repository let us guess. It only reads: it resolves
// no image, opens no file the configuration names and decides nothing about what a repository may
// ask for. That is decided by agentbox/host/consent.
//
// Load is the way in, and Config what comes out: complete, with the default of every key that the
// file leaves out, so that no caller has to know defaults. Find tells which file would be read,
// Write makes an agentbox.yaml of a detected configuration (agentbox init), ParseSize and
// FormatSize are the one notation of sizes for files and flags.
//
// Both forms of file become one tree of yaml.Nodes with line numbers, and one decoder reads it
// (yamlfile.Reader), which reports all mistakes at once.
//
// Invariants: the file came with the repository, so it is data of a stranger. Its size (maxFile),
// its depth (maxDepth) and, by yamlfile, what aliases stand for and what messages quote is bounded,
// and paths that lead out of the repository are refused. The fuzz targets keep that. The keys are
// described in docs/configuration.md, which a test compares with topLevel.
package config
