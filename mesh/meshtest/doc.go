// Package meshtest makes whole teams in one process, over UDP on loopback, for tests of what runs
// between peers. It is imported by tests only.
package meshtest
