// Package toolchain finds out which tools a repository's own files ask for, in which version. It
// reads files; it runs nothing, and it trusts no byte that it reads. Package resolve plans how a box
// gets the tools.
//
// A need is one tool that one file asks for. A constraint is its version in the notation of that
// tool's ecosystem. The candidate is the version of a package that the distribution has.
//
// Detect reads the files, with one reader for each ecosystem, and returns Needs. NewNeed makes a
// Need from agentbox.yaml or an agent's profile. Ecosystems tells package policy from whose
// registries the tools download.
//
// Invariants: A constraint has passed a pattern that allows neither quotes, dollars nor a leading
// dash, and is always an argument of its own. A version that no pattern matches is Refused: it is
// shown to people and used for nothing. A file that its own tool would reject still asks for the
// tool, whose message is better than ours. Needs are in a fixed order, so that the same files result
// in the same key.
//
// To add a tool: a Tool in need.go, its packages in resolve's packagesOf, and either a marker or a
// reader.
package toolchain
