// Package gvisor runs machines in gVisor, a kernel in user space, as an ordinary user or root. It
// talks neither to the guest agent nor to the network: the supervisor that holds a Machine does
// that, over its stream and its cable. gVisor needs no hardware virtualization.
//
// Every machine has Linux namespaces of its own. Their first process is a small launcher
// (vmm/gvisor/launch); when it ends, the kernel ends all others. Their mount namespace has nothing
// of the host but the image, the workspace and the machine's own directory, and their root is
// nobody on the host.
//
// Driver implements vmm.Driver, vmm.Mover, vmm.Reclaimer and vmm.DirectoryWorkspaces;
// agentbox/place/local/drivers opens it. To start a machine, prepare makes its directory with the OCI
// description (spec.go), launch starts the launcher in new namespaces, vmm/userns maps their ids, and
// await sends the plan (vmm/gvisor/plan) and gets a connection to the sandbox and our end of the
// network card. From then on control.go makes gVisor's remote calls to the sandbox, link.go is the
// cable, stream.go the two pipes to the agent, and machine.go follows the machine to its end. In
// save.go and restore.go, runsc writes and reads its checkpoints. Machines boot faster than a
// template of them could be restored, so there is none.
//
// What always holds:
//
//   - No process of a machine outlives its launcher, and the launcher dies with us.
//   - A workspace is a directory of the host. While a machine runs, root of the box may own files
//     in it under ids of the machine's namespace. When it has ended, the caller owns all of them.
//   - A state fits the fingerprint with which it was saved: the programs, the CPU's features, the
//     ids of the user and the description of the machine. It is complete in itself.
//
// Names on disk are in names.go, and figures in docs/internals/measurements.md.
package gvisor
