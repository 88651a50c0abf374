// Package registries finds out which hosts this machine is configured to take packages and code
// from: the list behind the preset balanced. It names no registry itself: whatever it finds is said
// by the machine's files and tools.
package registries
