// Package vmm is the contract between a box and whatever runs its machine: an emulator, a
// hypervisor, a user-space kernel. It knows nothing of repositories, leases or networks policies,
// and what a driver keeps on disk is the driver's own affair.
package vmm
