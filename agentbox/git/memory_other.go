//go:build !linux

package git

// limitMemory does nothing here: no other system has a bound for a process that runs already.
func limitMemory(int) {}
