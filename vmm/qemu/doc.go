// Package qemu runs machines as QEMU microvms: boot once, restore always, with memory kept as
// differences to a template. It speaks neither to the guest agent nor to the network; the
// supervisor that holds a Machine does that over its stream and its cable.
//
// Driver implements vmm.Driver and vmm.Snapshotter, and agentbox/drivers is what opens it. The
// journey of a machine: argv.go describes a command line as a pure function, start.go runs it,
// machine.go follows it to its end, qmp.go speaks to QEMU. save.go and restore.go write and read
// what names.go lists; a guest's memory and the template's runtime layer are page sets (pageset.go
// has the format, pagesio.go reads and writes them in parallel), and pagemap.go finds the pages
// that a running QEMU has changed. probe.go and kvm.go find out what this host can do, memo.go
// remembers it.
//
// What always holds:
//
//   - QEMU is our child, confined before its first instruction (vmm/confine), without a network
//     of its own, and dies with us. All its sockets are inherited: none has a name.
//   - A template's memory is a sealed file that machines map privately: no machine, and no QEMU
//     that a guest has taken over, changes what the others start from.
//   - A guest's disks are copied as bytes, never mounted or parsed on the host.
//   - What a state is loaded from matches its digests, except the disks of a saved state (see
//     manifest).
//   - A state fits the fingerprint it was saved with and no other. There is no migration between
//     versions of QEMU, kernels or settings: a template is made again, a saved machine is lost.
//
// Why it is so, and what was tried in vain: docs/internals/decisions.md 4 to 9 and
// docs/internals/measurements.md. The files are described byte by byte in
// docs/internals/formats.md.
package qemu
