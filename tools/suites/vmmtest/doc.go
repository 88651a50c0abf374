// Package vmmtest is the conformance suite that every vmm.Driver passes. It is for tests only, and
// measures neither speed nor isolation.
//
// A driver's test calls Run with a Harness: the driver, a spec, and a Guest that does what the
// suite asks from inside. Both drivers run it with the real agent (guesttest). A promise
// of package vmm without a test here is a gap. TestBlocks is for what stands between vmm.Blocks and
// a machine, TestOrphans for processes that must not outlive their parent.
//
// Rules for new tests: none fails because something takes long; a machine belongs to its rig and is
// killed when the test ends; each test has a directory of its own.
package vmmtest
