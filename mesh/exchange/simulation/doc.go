// Package simulation runs transfers of many nodes on a simulated clock: the rules of
// mesh/exchange/schedule, as they are, over links that are modelled. It says how an image spreads
// where no machine is large enough to try, and whether a change of the rules helps, in seconds and
// with the same result each time. It knows nothing of bytes: pieces have sizes and arrive.
//
// Run takes a Config and gives a Result. Its callers are tests, which hold the rules to what
// docs/internals/benchmarks.md claims, and `bench mesh`. Nothing here runs in a daemon.
//
// The links: each node has an uplink and a downlink; transfers that share one have equal parts of
// it, and what one cannot use because of its other end is lost, so results err towards slow. A
// message takes Latency. Verifying takes no time.
//
// It is a simulation of discrete events in one goroutine: a heap of what will happen, and a clock
// that jumps from one to the next. Everything that is drawn comes from Config.Seed.
package simulation
