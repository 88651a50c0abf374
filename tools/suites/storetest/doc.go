// Package storetest has the conformance tests for implementations of cachestore.Source, and Slow, a
// Source that is slow or fails as a test requires. Only tests use it.
//
// TestSource tests Get. TestSession tests sessions: those of Sources that have their own
// (mesh/exchange) and, by way of cachestore.OpenSession, those of all others (a directory, a web
// server, a Store). Both take a func that makes a Source with exactly the given pieces. Each case
// tests one sentence of the contracts in cachestore/session.go and source.go; a new sentence there
// needs a new case here.
package storetest
