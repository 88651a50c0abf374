// Package console keeps what a guest and its VMM say: bounded, on disk and for error messages. It
// does not understand it, and believes none of it.
//
// Console is for the guest's serial console, or the standard output of its first process:
// everything goes to a Log of two files in the machine's directory, which people read after a
// machine has died. Tail is for the standard error of a VMM, and keeps the last 16 KiB in memory.
// Both drivers (vmm/qemu, vmm/gvisor) have one of each kind where it applies; the guest agent keeps
// a Log of each service. A guest may write without end and in any encoding; no type grows or blocks
// by that. It imports the standard library only: the agent links it.
package console
