// Package meshtest makes whole teams in one process, over UDP on loopback, for tests of what runs
// between peers: real nodes of mesh/wire, a member list that is signed, relays that can be shut to
// make a partition. It is imported by tests only.
//
// A Team signs with its root key, Nodes makes one with nodes that know each other. Everything is
// closed with the test. Nothing here waits for a time to pass: Eventually waits for what the test
// means.
package meshtest
