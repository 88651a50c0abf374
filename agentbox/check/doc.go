// Package check runs a repository's checks: WebAssembly modules over the files of a task's result,
// on this host and without a box. It decides nothing about which may run: its caller has asked
// package consent.
//
// Each run is a process of its own (agentbox-check, which has package module), so that a module, or
// what it makes of the compiler, costs that process alone: confined to the directory of its compiled
// code (vmm/confine), with bounds on memory and processor time that the kernel keeps. The files come
// through pipes from a git that this package's caller starts on the mirror; the process may ask for
// the objects of the listing and no others.
//
// A process is started before it is needed: when a run of its module ends, or work that will be checked
// is being kept. By the time of the run it has loaded what the module was compiled to (Spares).
//
// Modules are kept by their digest, with what they were compiled to. Either can be made again, so the
// longest unused go first.
package check
