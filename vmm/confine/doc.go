// Package confine takes rights away from a program before its first instruction. The caller says in
// advance which files it may open; the host's other files, other programs' signals (Linux's
// Landlock) and every socket but those that it inherits (a seccomp filter) are then out of its
// reach. Neither mechanism needs a privilege, so it works for ordinary users and inside of
// containers.
//
// vmm/qemu confines QEMU with it, because a guest that has broken out into QEMU must find nothing
// there that it can use; the doctor asks it what this kernel can do. It knows nothing of machines,
// and imports nothing of agentbox, so that it can be read on its own.
//
// What it does not promise: the filter is a list of what is denied, and no list of what a program
// may do, because what QEMU and its libraries call changes with each of their versions; and a
// confined program can still see which processes exist. Landlock is taken as far as the running
// kernel has it: the table of versions is in handled.
package confine
