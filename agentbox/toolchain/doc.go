// Package toolchain finds out which tools a repository's own files ask for, in which version, and
// plans how a box gets them: from the distribution if its version satisfies the constraint,
// otherwise from the ecosystem's own package registry. It reads files and makes plans; it runs
// nothing, and it trusts no byte that it reads.
//
// A need is one tool that one file asks for. A constraint is its version in the notation of that
// tool's ecosystem. The candidate is the version of a package that the distribution has.
//
// Detect reads the files, with one reader for each ecosystem, and returns Needs. NewNeed makes a
// Need from agentbox.yaml or an agent's profile. ParseCandidates reads what the distribution has,
// Resolve makes a Plan of both, and agentbox/host/setup runs Plan.Commands as root in a clean box.
// Ecosystems tells package policy from whose registries the tools download. Fingerprint is an
// ingredient of the key of the resulting image.
//
// Invariants: A constraint has passed a pattern that allows neither quotes, dollars nor a leading
// dash, and is always an argument of its own. A version that no pattern matches is Refused: it is
// shown to people and used for nothing. A file that its own tool would reject still asks for the
// tool, whose message is better than ours. Needs and plans are in a fixed order, so that the same
// files result in the same key.
//
// To add a tool: a Tool in need.go, its packages in packagesOf, and either a marker or a reader.
package toolchain
