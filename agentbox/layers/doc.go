// Package layers keeps this home's layers in the store: what setup made, by key. It joins package
// caches, which knows what a key is, to package cachestore, which knows bytes.
package layers
