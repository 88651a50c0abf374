// Package simulation runs transfers of many nodes on a simulated clock: the rules of
// mesh/exchange/schedule, as they are, over links that are modelled. It says how an image spreads
// where no machine is large enough to try. It knows nothing of bytes: pieces have sizes and arrive.
//
// The links: each node has an uplink and a downlink; transfers that share one have equal parts of
// it, and what one cannot use because of its other end is lost, so results err towards slow. A
// message takes Latency. Verifying takes no time.
package simulation
