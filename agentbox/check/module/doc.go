// Package module runs one WebAssembly module (wasip1) over the files of a git commit, by wazero. It
// knows no repository: a listing and the contents of files come through pipes, and neither is
// trusted, since a box made the commit.
//
// The module gets arguments, standard output and a read-only tree at /; no other file, network,
// environment, clock or randomness: time stands at a fixed moment and moves by each look at it, so
// that a check of the same commit says the same again. Its memory and open files are bounded here.
// Time and the memory of the compiler are bounded from outside, by package check, which runs this in
// the program agentbox-check.
package module
