// Package storetest is what every cachestore.Source must pass, and a Source that is slow or fails
// as a test wants it to. It is used by tests only.
package storetest
