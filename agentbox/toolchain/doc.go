// Package toolchain finds out which tools a repository's own files ask for, in which version, and
// plans how a box gets them: from the distribution where its version satisfies what is asked for,
// else from the ecosystem's own package registry. It reads files and makes plans; it runs nothing,
// and it trusts no byte of what it reads.
//
// Words: a need is one tool that one file asks for; a constraint is the version in the notation of
// that tool's ecosystem; the candidate is the version that the distribution has of a package.
//
// Detect reads the files (one reader for each ecosystem) and gives Needs; Ask makes a Need of what
// agentbox.yaml or an agent's profile says. ParseCandidates reads what the distribution has,
// Resolve makes a Plan of both, and Plan.Commands is what agentbox/host/setup runs as root in a
// clean box. Ecosystems tells policy whose registries they take packages from, Recipe goes into the
// key of the image that comes out.
//
// Invariants: a constraint has passed a pattern that has neither quotes, dollars nor a leading
// dash, and it is an argument of its own wherever it is used; what no pattern takes is Refused,
// shown to people and used for nothing. A file that its own tool would refuse still asks for the
// tool: its message is better than ours. Needs and plans are in a fixed order, so that the same
// files have the same key.
//
// To add a tool: a Tool in need.go, its packages in packagesOf, and either a marker or a reader.
package toolchain
