// Package confine takes rights away from a program before its first instruction: it can open only
// the files that the caller lists (Landlock), signal no other program (Landlock), use only the
// sockets that it inherits, and change no file's metadata (a seccomp filter). Neither mechanism
// needs a privilege, so it works for ordinary users and inside of containers.
//
// vmm/qemu confines QEMU with it, because a guest that has broken out into QEMU must find nothing
// there that it can use; the doctor asks it what this kernel can do. It knows nothing of machines,
// and imports nothing of agentbox, so that it can be reviewed on its own.
//
// It does not promise more than that: the filter lists what is denied and not what is allowed,
// because what QEMU and its libraries call changes with each of their versions. A confined program
// can still see which processes exist. Landlock is used as far as the running kernel has it;
// handled has the versions.
package confine
