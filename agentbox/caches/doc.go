// Package caches computes the key of a repository's setup result, by which layer 1 is found. It
// reads lockfiles and nothing else, and knows neither machines nor where a cache is stored
// (agentbox/layers).
//
// A setup result is an image with caches and a runtime over the box's own, made once per key. What is new
// in it is found by comparison with an inventory of the box before setup (name, mode, owner, size,
// times), which the host keeps; no time is compared with another.
//
// The ingredients are everything that setup may depend on. The key is their digest. The family is
// the digest of the ingredients without the contents of the lockfiles, so that caches of one family
// differ in their lockfiles only.
//
// Results that must not be shared have different keys: the project is an ingredient, and so is
// every branch but the default one. Raise Version when the content of a setup result, or how it is
// stored, changes.
package caches
