// Package gvisor runs machines in gVisor: a kernel in user space, for hosts without hardware
// virtualization, as an ordinary user or root. It speaks neither to the guest agent nor to the
// network; whoever holds a Machine does that over its stream.
//
// Every machine has Linux namespaces of its own, made for it by a small launcher
// (vmm/gvisor/launch) that is their first process: when it ends, the kernel ends all others. In
// their mount namespace nothing of the host can be named but the image, the workspace and the
// machine's own directory; root in there is nobody on the host.
package gvisor
