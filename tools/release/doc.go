// Command release makes what users install, from a checkout in which `make build` has run: archives,
// packages for dpkg and rpm, a Homebrew formula, man pages, completions, a list of the parts (SBOM),
// checksums and a statement of provenance, signed if it is given a key. It publishes nothing.
//
// The same commit and the same Go give the same bytes, in whatever directory: every time in them is
// that of the commit. It is a module of its own, since what it links is no business of agentbox.
package main
