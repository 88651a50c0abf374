// Package netstack is the network that a box sees: its only peer on the cable, in user space, which
// answers ARP, DHCP, DNS and ping itself and hands TCP and UDP flows over to a Handler. It decides
// nothing about where a flow may go, opens no connection to anywhere, and forwards no packet.
//
// The supervisor makes one Stack for each machine, over the machine's vmm.Link, with the gateway
// (policy/gateway) as its Handler. A frame goes through inspect first (frame.go), which lets
// through nothing but what the one guest with its one address can rightly say. TCP and UDP then go
// to gVisor's stack (stack.go, card.go), which ends them: tcp.go and stream.go are connections,
// udp.go flows of datagrams. Questions to the resolver are answered by dns.go from names.go, where
// each allowed name has an address that stands for it. places.go bounds how many there are of
// all that, and what is refused is reported by attempts.go.
//
// What always holds:
//
//   - Nothing that the guest sends leaves this process but through the Handler, by name or address.
//   - What the guest can make us hold is bounded: connections, flows, questions, names, reports.
//   - A refusal is told to the guest at once, so that no program waits for a timeout.
//   - The same name has the same address in every stack, so a machine that is restored or forked
//     finds its names again. Connections do not outlive a stack: Forget and resets end them.
//
// The guest's end is configured by vmm/guest/netconfig; the addresses both ends use are in
// vmm/guest/protocol. Why it is gVisor's stack in user space: docs/internals/decisions.md, 10 and
// 11.
package netstack
