//go:build !linux

package git

// limitMemory does nothing, since no other system can limit a process that is already running.
func limitMemory(int) {}
