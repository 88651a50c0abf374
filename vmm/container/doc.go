// Package container runs machines that share the host's kernel: the guest agent is process 1 of Linux
// namespaces of its own, and the box's programs are processes of the host. It is as fast as the host
// and isolates less than the other kinds: who finds a fault in the kernel is on the host. It is for
// code that its user trusts. It talks neither to the guest agent nor to the network.
//
// Driver implements vmm.Driver, vmm.Reclaimer and vmm.DirectoryWorkspaces; it neither saves machines
// nor reads incomplete images. To start a machine, launch starts the guest agent's program as a
// launcher in new namespaces (vmm/container/launch), vmm/userns maps their ids, and await sends the
// plan (vmm/container/plan): directories, mounts where we are root, and the filter of system calls.
// The launcher answers with the network cable and becomes the agent. group.go limits the machine and
// freezes it, layer.go finds its image, machine.go follows it to its end.
//
// What always holds:
//
//   - No id of the box is root of the host, and no capability of its processes is one on the host. The
//     user who starts it owns the workspace; if that is root, by a mount that maps ids.
//   - Of the host's files the box has the image, under an overlay, and the workspace. The agent's own
//     program is on an overlay that nobody can write.
//   - What the box sends leaves by the cable, and so through the gateway: of sockets that belong to no
//     network namespace the filter allows none.
//   - No process of a machine outlives the guest agent, and that dies with us.
package container
