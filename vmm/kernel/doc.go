// Package kernel finds or fetches a guest kernel and puts it, with the guest agent and the modules
// it needs, into a directory that a machine boots from. It never writes to the host's /boot or
// /lib/modules and never installs a package.
//
// Words:
//
//   - Parts are a kernel before it meets an agent: vmlinuz, the needed modules in load order, and
//     where they came from. Parts that were fetched are kept in Root/fetched/<release>.
//   - A kernel directory is what machines boot from: vmlinuz, initrd and kernel.json. It is a pure
//     function of the parts and the agent, lives in Root/<digest of both>, appears complete or not
//     at all, and never changes.
//
// The daemon calls Ensure before it boots a microVM (host/templates), and vmm/qemu is given the
// directory; gVisor needs no kernel. ensure.go has the order in which kernels are looked for,
// parts.go the host's own and the user's, apt.go the distribution's, elsewhere.go what a member of
// the team fetched. modules.go decides which modules a guest gets, initramfs.go packs them with the
// agent, assemble.go writes and verifies directories.
//
// Everything under Root belongs to this package and is guarded by one lock file there (Root/lock),
// so daemons and tests may share it. A file that is not what its digest says is an error of code
// Corrupt, and Ensure answers that by making it again. Formats: docs/internals/formats.md,
// "Kernels".
package kernel
