// Package vmmtest is the conformance suite that every vmm.Driver passes. It is for tests only, and
// says nothing about how fast or how isolated a driver is.
//
// A driver's test calls Run with a Harness: the driver, a spec, and a Guest that does what the
// suite asks from inside. Both drivers run it with the real agent (vmm/guest/guesttest). What
// package vmm promises and a test here does not check is a gap. Served images have TestBlocks, for
// what stands between vmm.Blocks and a machine; processes that must not outlive their starter have
// Orphans.
//
// Rules for new tests: none fails because something takes long; a machine belongs to its rig and is
// killed when the test ends; each test has a directory of its own.
package vmmtest
