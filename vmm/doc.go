// Package vmm is the contract between a box and what runs its machine: an emulator, a hypervisor, a
// user-space kernel. It knows nothing of repositories, leases or network policies, and what a
// driver keeps on disk is the driver's own affair.
//
// A Driver starts machines of one kind; agentbox/drivers opens the two that exist, vmm/qemu and
// vmm/gvisor, and agentbox/host and agentbox/supervisor use them through this package alone. A
// Machine is one running guest: a byte stream to its agent (spoken by vmm/guest), a Link for its
// network (ended by vmm/netstack) and the processes that make it up. What only some drivers can do
// (save and restore, read an image that is not all here, keep workspaces as directories) is a small
// interface of its own, asked for by a type assertion.
//
// vmm/vmmtest is the suite that every driver has to pass: what is promised here and not tested
// there is a gap. The daemon calls drivers to make templates and workspaces; each running machine
// belongs to one supervisor, and dies with it.
//
// Errors that a caller acts on are *agentbox.Error: Missing (something to install or to switch on),
// Corrupt (make it again), Conflict (it does not fit this machine), Exists, Invalid, NoSpace. Any
// other error is for people.
package vmm
