// Command lab measures agentbox's own parts against other programs that do the same: the store
// against restic and desync, the exchange of a team against rsync, a registry and IPFS, boxes
// against plain runsc and QEMU. What users measure on their machines is `agentbox bench`.
//
// A verb is in verbs.go, and what it measures in the file of its name: a lab there (StoreLab,
// MeshLab, LazyLab, bench.Lab) makes scenarios, which package bench runs and reports. A peer is the
// other program of a comparison. docs/internals/benchmarks.md has figures.
//
// `make lab` builds it. It measures bin/agentbox, or the program that --agentbox names; the store
// and the exchange are those it was built with.
package main
