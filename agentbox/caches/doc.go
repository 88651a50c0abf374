// Package caches computes what layer 1 is found by: the key of what a repository's setup makes. It
// reads the lockfiles and nothing else, and knows neither machines nor where a cache is kept
// (agentbox/layers).
//
// Words: the ingredients are everything setup may depend on; the key is their digest; the family is
// the digest of the ingredients without the contents of the lockfiles, so that caches of one family
// differ in their lockfiles only.
//
// What must not be shared has different keys: the project and, but for its default branch, the
// branch are ingredients. Who changes what setup makes, or how it is kept, raises Version.
package caches
