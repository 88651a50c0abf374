// Package meshtest makes whole teams in one process, over UDP on loopback, to test what runs
// between peers: real nodes of mesh/wire, a signed member list, relays that can be cut to make a
// partition. Only tests import it.
//
// A Team signs with its root key; Nodes makes one with nodes that know each other. Everything is
// closed with the test. Nothing here waits for a fixed time: Eventually waits for a condition.
package meshtest
