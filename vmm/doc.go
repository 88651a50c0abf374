// Package vmm is the contract between a box and what runs its machine: an emulator, a hypervisor, a
// user-space kernel. It knows nothing of repositories, leases or network policies, nor of what a
// driver keeps on disk.
//
// A Driver starts machines of one kind. agentbox/place/local/drivers opens those that exist, vmm/qemu,
// vmm/gvisor and vmm/container; agentbox/host and agentbox/place/local/supervisor use them through
// this package alone. A Machine
// is one running guest: a byte stream to its agent (spoken by vmm/guest), a Link for its network
// (ended by vmm/netstack) and its processes. What only some drivers can do is a small interface of
// its own, found by a type assertion.
//
// tools/suites/vmmtest is the suite that every driver has to pass: a promise here without a test
// there is a gap. The daemon calls drivers to make templates and workspaces; each machine belongs to
// one supervisor, and dies with it.
//
// Errors that a caller acts on are *agentbox.Error: Missing (something to install or to switch on),
// Corrupt (make it again), Conflict (it does not fit this machine), Exists, Invalid, NoSpace. Any
// other error is for people.
package vmm
