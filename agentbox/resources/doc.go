// Package resources decides how much memory and how many CPUs a box gets when nobody says, how many
// machines are kept ready, and how many more boxes this machine has room for. It measures the
// machine and decides by pure functions; it starts, stops and limits nothing.
//
// Words: what boxes were promised is the sum of what their machines may grow to; a box takes memory
// only as it writes to it, so promises may exceed the machine, and by how much is decided here.
//
// Measure and Machine are what this machine has, with the limits of the control groups that this
// process is in; Share what one box gets of it (Full, Next), Room how many more there may be, Pool
// how many machines are kept warm. Callers are agentbox/host (capacity, templates) and the daemon's
// queue of tasks. The figures are in one place, with their reasons (resources.go), and
// docs/resources.md tells users of them.
//
// The numbers of Linux are samples of a moment, and boxes grow later: Next is an estimate that has
// to be right most of the time, and a reserve is for the rest.
package resources
