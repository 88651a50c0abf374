// Package gvisor runs machines in gVisor: a kernel in user space, for hosts without hardware
// virtualization, as an ordinary user or root. It speaks neither to the guest agent nor to the
// network; the supervisor that holds a Machine does that over its stream and its cable.
//
// Every machine has Linux namespaces of its own, made for it by a small launcher
// (vmm/gvisor/launch) that is their first process: when it ends, the kernel ends all others. In
// their mount namespace nothing of the host can be named but the image, the workspace and the
// machine's own directory; root in there is nobody on the host.
//
// Driver implements vmm.Driver, vmm.Snapshotter, vmm.Reclaimer and vmm.DirectoryWorkspaces;
// agentbox/drivers opens it. A start goes like this: prepare makes the machine's directory with the
// OCI description (spec.go), launch starts the launcher in new namespaces, idmap.go gives those
// their ids, await sends it the plan (vmm/gvisor/plan) and gets back a connection to the sandbox
// and our end of the network card. From then on control.go speaks gVisor's own remote calls to the
// sandbox, link.go is the cable, stream.go the two pipes to the agent, and machine.go follows the
// machine to its end. save.go, restore.go and template.go have runsc write and read its
// checkpoints.
//
// What always holds:
//
//   - No process of a machine outlives its launcher, and the launcher dies with us.
//   - A workspace is a directory of the host. While a machine runs, root of the box may own files
//     in it that only the machine's namespace knows; when it has ended, all is the caller's.
//   - A state fits the fingerprint it was saved with: the programs, the CPU's features, the ids of
//     the user and the description of the machine. It is complete in itself; its template only says
//     which machines it fits.
//   - Templates are verified once and then live in sealed memory files, as in vmm/qemu.
//
// Names on disk are in names.go, formats in docs/internals/formats.md, figures and what was tried
// in vain in docs/internals/measurements.md.
package gvisor
