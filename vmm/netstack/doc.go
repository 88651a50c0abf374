// Package netstack is the network of a box in user space, its only peer on the cable. It answers
// ARP, DHCP, DNS and ping, and passes TCP and UDP flows to a Handler. It does not decide where a
// flow may go, opens no connections and forwards no packets.
//
// The supervisor makes one Stack for each machine, over the machine's vmm.Link, with the gateway
// (policy/gateway) as its Handler. Each frame goes through inspect (frame.go) first, which accepts
// only what the one guest with its one address may send. gVisor's stack (stack.go, card.go)
// terminates TCP and UDP: tcp.go and stream.go are connections, udp.go flows of datagrams. dns.go
// answers DNS queries with the synthetic addresses of names.go. slots.go bounds the number of
// connections and flows, and attempts.go reports what was refused.
//
// What always holds:
//
//   - Nothing that the guest sends leaves this process but through the Handler, by name or address.
//   - Connections, flows, queries, names and reports, which a guest can make as it likes, are
//     bounded.
//   - The guest learns of a refusal at once, so that no program waits for a timeout.
//   - The same name has the same address in every stack, so a machine that is restored or forked
//     finds its names again. Connections do not outlive a stack: ResetStale and resets end them.
//
// vmm/guest/netconfig configures the guest's end, and vmm/guest/protocol has the addresses of both
// ends. Why it is gVisor's stack in user space: docs/internals/decisions.md, 10 and 11.
package netstack
