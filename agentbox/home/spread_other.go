//go:build !linux

package home

// spread is for ext4 only.
func spread(string) {}
