package protocol

import "net/netip"

// The network of every box, the same in each: a link with two ends. The agent sets these when a
// machine boots, so that a clone has nothing to configure; DHCP gives out the same. The addresses
// are of a block for benchmarks (RFC 2544), which a box has no other use for.
const (
	// NetworkInterface is the name of the network card in the guest.
	NetworkInterface = "eth0"
	// GuestMAC and GatewayMAC are the two Ethernet addresses on the cable.
	GuestMAC   = "02:00:c6:12:00:02"
	GatewayMAC = "02:00:c6:12:00:01"
	// NetworkMTU is the most bytes of a packet: 64 KiB, rounded down for TCP. Large packets take
	// the place of segmentation offload, which QEMU's sockets cannot carry.
	NetworkMTU = 65520
	// NetworkBits is the length of the prefix: a guest has no neighbour but its gateway.
	NetworkBits = 30
)

// Addresses on the link, and the block of these and every synthetic address of a name.
var (
	GuestAddr   = netip.AddrFrom4([4]byte{198, 18, 0, 2})
	GatewayAddr = netip.AddrFrom4([4]byte{198, 18, 0, 1}) // also the resolver
	NameBlock   = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15)
)
