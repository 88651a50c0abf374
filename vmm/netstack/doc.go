// Package netstack is the network that a box sees: its only peer on the cable, in user space, which
// answers ARP, DHCP, DNS and ping itself and hands TCP and UDP flows over to a Handler. It decides
// nothing about where a flow may go, opens no connection to anywhere, and forwards no packet.
package netstack
