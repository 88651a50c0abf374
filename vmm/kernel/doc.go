// Package kernel finds or fetches a guest kernel and puts it, with the guest agent and the modules
// it needs, into a directory that a machine boots from. It never writes to the host's /boot or
// /lib/modules and never installs a package.
//
// Words:
//
//   - Parts are a kernel without an agent: vmlinuz, the needed modules in load order, and where
//     they came from. Fetched parts are kept in Root/fetched/<release>.
//   - A kernel directory is what machines boot from: vmlinuz, initrd and kernel.json. It is a pure
//     function of the parts and the agent, and its name in Root is the digest of both. It appears
//     complete or not at all, and never changes.
//
// The daemon calls Ensure before it boots a microVM (host/templates) and passes the directory to
// vmm/qemu. gVisor needs no kernel. ensure.go has the order of sources: parts.go reads the user's
// kernel and the host's own, remote.go gets one that a member of the team fetched, apt.go
// fetches the distribution's. modules.go decides which modules a guest gets, initramfs.go packs
// them with the agent, and assemble.go writes and verifies directories.
//
// Everything under Root belongs to this package, and a lock file (Root/lock) guards it, so daemons
// and tests can share it. A file that does not match its digest is an error of code Corrupt, and
// Ensure makes it again.
package kernel
