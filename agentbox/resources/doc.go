// Package resources decides how much memory and how many CPUs a box gets by default, how many
// machines are kept ready, and how many more boxes this machine has room for. It measures the
// machine and decides by pure functions; it starts, stops and limits nothing.
//
// What boxes were promised is the sum of what their machines may grow to. A box takes memory only
// as it writes to it, so promises may exceed the machine; how far is decided here.
//
// Measure and Machine are what this machine has, within the limits of this process's control
// groups; Share is what one box gets of it (Full, NextShare), Headroom how many more there may be,
// Pool how many machines are kept ready. Callers are agentbox/host (capacity, templates) and the
// daemon's queue of tasks. The figures are in resources.go, with their reasons, and
// docs/resources.md has them for users.
//
// Linux's numbers are samples of one moment, and boxes grow later: NextShare is an estimate that
// must be right most of the time, and a reserve covers the rest.
package resources
