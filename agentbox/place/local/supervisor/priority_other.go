//go:build !linux

package supervisor

// yield does nothing: no machine of another system runs tasks of others.
func yield([]int) error { return nil }
