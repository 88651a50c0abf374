// Package vmmtest is the conformance suite that every vmm.Driver passes. It is for tests only, and
// says nothing about how fast or how isolated a driver is.
package vmmtest
