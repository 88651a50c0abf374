// Package console keeps what a guest and its VMM print: bounded, on disk and for error messages. It
// does not interpret it.
//
// Console is for the guest's serial console, or the standard output of its first process:
// everything goes to a Log of two files in the machine's directory, which people read after a
// machine has died. Tail is for the standard error of a VMM, and keeps the last 16 KiB in memory.
// Both drivers (vmm/qemu, vmm/gvisor) use them; the guest agent keeps a Log of each service. A
// guest may write without end and in any encoding; that makes no type grow or block. The agent
// links the package, so it imports the standard library only.
package console
