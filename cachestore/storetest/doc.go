// Package storetest is what every cachestore.Source must pass, and a Source that is slow or fails
// as a test wants it to. It is used by tests only.
//
// TestSource is about Get. TestSession is about sessions: of Sources that have their own
// (mesh/exchange) and, by way of cachestore.OpenSession, of all others (a directory, a web server,
// a Store). Both are given a func that makes a Source with exactly the pieces that a case needs.
// Each case is one sentence of the contract in cachestore/session.go; a new sentence there wants a
// case here.
package storetest
