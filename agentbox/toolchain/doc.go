// Package toolchain finds out which tools a repository's own files ask for, in which version, and
// plans how a box gets them: from the distribution where its version satisfies what is asked for,
// else from the ecosystem's own package registry. It reads files and makes plans; it runs nothing,
// and it trusts no byte of what it reads.
//
// Words: a need is one tool that one file asks for; a constraint is the version in the notation of
// that tool's ecosystem; the candidate is the version that the distribution has of a package.
package toolchain
