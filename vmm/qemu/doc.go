// Package qemu runs machines as QEMU microvms: boot once, restore always, with memory saved as
// differences to a template. It speaks neither to the guest agent nor to the network; the
// supervisor that holds a Machine does that over its stream and its link.
//
// Driver implements vmm.Driver and vmm.Templater; agentbox/place/local/drivers opens it. argv.go describes a
// command line as a pure function, start.go runs it, machine.go follows the machine to its end,
// qmp.go speaks to QEMU. save.go and restore.go write and read the files of names.go. A guest's
// memory and the template's runtime layer are page sets: pageset.go has the format, pagesio.go
// reads and writes them in parallel, pagemap.go finds the pages that a running QEMU has changed.
// probe.go and kvm.go find out what this host can do, memo.go remembers it.
//
// Invariants:
//
//   - QEMU is our child, confined before its first instruction (vmm/confine), without a network of
//     its own, and dies with us. It inherits all its sockets: none has a name.
//   - A template's memory is a sealed file that machines map privately: no machine, and no QEMU
//     that a guest has taken over, changes what the others start from.
//   - A guest's disks are copied as bytes, never mounted or parsed on the host.
//   - What a state is loaded from matches its digests, except the disks of a saved state (see
//     manifest).
//   - A state fits only the fingerprint that it was saved with. Nothing migrates between versions
//     of QEMU, kernels or settings: a template is made again, a saved machine is lost.
//
// Reasons and failed attempts: docs/internals/decisions.md 4 to 9 and
// docs/internals/measurements.md.
package qemu
