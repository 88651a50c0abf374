package netstack

import "encoding/binary"

// What the stack says by itself is built here: answers to ARP and ping, ICMP errors, and the
// envelope of DHCP.

// ether is the header of every frame to the guest, of the given EtherType. Callers append the
// packet.
func ether(kind uint16) []byte {
	h := make([]byte, 0, etherLen)
	h = append(h, guestMAC[:]...)
	h = append(h, gatewayMAC[:]...)
	return binary.BigEndian.AppendUint16(h, kind)
}

// arpAnswer says where the gateway is. request has passed inspectARP.
func arpAnswer(request []byte) []byte {
	const answer = 2
	f := append(ether(etherARP), request[etherLen:etherLen+6]...)
	f = binary.BigEndian.AppendUint16(f, answer)
	f = append(append(f, gatewayMAC[:]...), gatewayIP[:]...)
	return append(append(f, guestMAC[:]...), request[etherLen+14:etherLen+18]...)
}

// ipv4 is a frame with one IPv4 packet to the guest. The packet is never fragmented and has no
// options. A zero identification is allowed for such a packet (RFC 6864).
func ipv4(from, to [4]byte, proto byte, payload []byte) []byte {
	const ttl, dontFragment = 64, 0x40
	f := ether(etherIPv4)
	h := make([]byte, ipLen)
	h[0], h[6], h[8], h[9] = 0x45, dontFragment, ttl, proto
	binary.BigEndian.PutUint16(h[2:], uint16(ipLen+len(payload)))
	copy(h[12:], from[:])
	copy(h[16:], to[:])
	binary.BigEndian.PutUint16(h[10:], ^sum(h, 0))
	return append(append(f, h...), payload...)
}

// pingAnswer sends an echo request back. ip is the guest's packet, from inspect; its data goes back
// as it came.
func pingAnswer(ip []byte) []byte {
	icmp := append([]byte{0, 0, 0, 0}, ip[ipLen+4:]...) // type 0, code 0, no sum yet
	binary.BigEndian.PutUint16(icmp[2:], ^sum(icmp, 0))
	return ipv4([4]byte(ip[16:20]), guestIP, protoICMP, icmp)
}

// Codes of ICMP's "destination unreachable".
const (
	// RFC 792; 13 is RFC 1812's "administratively prohibited".
	codeHost       = 1
	codeProtocol   = 2
	codePort       = 3
	codeProhibited = 13
)

// strayCode is the code that ends the wait of a program for an answer in a protocol. Linux gives a
// connecting program an error for some codes only, and goes on trying at others.
func strayCode(proto byte) byte {
	switch proto {
	case protoTCP:
		return codeHost
	case protoUDP:
		return codePort
	case protoICMP:
		return codeProhibited
	}
	return codeProtocol
}

// unreachable tells the guest that a packet of its own goes nowhere: its header and 8 bytes more go
// back. It comes from where the packet was for, or from the gateway where no packet can come from.
// That is what a kernel needs to find the socket it is about (RFC 792).
func unreachable(ip []byte, code byte) []byte {
	const destinationUnreachable = 3
	icmp := append([]byte{destinationUnreachable, code, 0, 0, 0, 0, 0, 0}, ip[:min(len(ip), ipLen+8)]...)
	binary.BigEndian.PutUint16(icmp[2:], ^sum(icmp, 0))
	from := [4]byte(ip[16:20])
	if destinationKind(from) != "" {
		from = gatewayIP
	}
	return ipv4(from, guestIP, protoICMP, icmp)
}

// udp is a frame with one datagram from the gateway.
func udp(from, to uint16, dst [4]byte, payload []byte) []byte {
	d := make([]byte, udpLen, udpLen+len(payload)) // no sum: IPv4 does without
	binary.BigEndian.PutUint16(d, from)
	binary.BigEndian.PutUint16(d[2:], to)
	binary.BigEndian.PutUint16(d[4:], uint16(udpLen+len(payload)))
	return ipv4(gatewayIP, dst, protoUDP, append(d, payload...))
}

// sum is the Internet checksum, not yet inverted. acc is a sum to go on from, that of a pseudo
// header for example.
func sum(b []byte, acc uint32) uint16 {
	for ; len(b) > 1; b = b[2:] {
		acc += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		acc += uint32(b[0]) << 8
	}
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return uint16(acc)
}
