// Package kernel finds or fetches a guest kernel and puts it, with the guest agent and the modules
// it needs, into a directory that a machine boots from. It never writes to the host's /boot or
// /lib/modules and never installs a package.
//
// Words:
//
//   - Parts are a kernel before it meets an agent: vmlinuz, the needed modules in load order, and where they came from.
//     Parts that were fetched are kept in Root/fetched/<release>.
//   - A kernel directory is what machines boot from: vmlinuz, initrd and kernel.json. It is a pure function of the
//     parts and the agent, lives in Root/<digest of both>, appears complete or not at all, and never changes.
package kernel
