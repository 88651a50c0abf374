// Package simulation runs transfers of many nodes on a simulated clock: the actual rules of
// mesh/exchange/schedule over modelled links. It shows how an image spreads among more machines
// than there are to try, and whether a change of the rules helps, in seconds and with the same
// result each time. It does not handle bytes: pieces have sizes and arrive.
//
// Run takes a Config and returns a Result. Its callers are tests, which hold the rules to what
// docs/internals/benchmarks.md claims, and `lab mesh`. Nothing here runs in a daemon.
//
// The links: each node has an uplink and a downlink. Transfers that share one get equal parts of
// it, and what one cannot use because of its other end is lost, so results err towards slow. A
// message takes Latency. Verification takes no time.
//
// It is a discrete event simulation in one goroutine: a heap of future events, and a clock that
// jumps from one to the next. All randomness comes from Config.Seed.
package simulation
