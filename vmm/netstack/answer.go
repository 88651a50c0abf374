package netstack

import (
	"encoding/binary"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

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
	h := header.IPv4(make([]byte, ipLen))
	h.Encode(&header.IPv4Fields{
		TotalLength: uint16(ipLen + len(payload)), Flags: header.IPv4FlagDontFragment, TTL: 64, Protocol: proto,
		SrcAddr: tcpip.AddrFrom4(from), DstAddr: tcpip.AddrFrom4(to),
	})
	h.SetChecksum(^h.CalculateChecksum())
	return append(append(ether(etherIPv4), h...), payload...)
}

// message is a frame with an ICMP message, rest being what follows its checksum.
func message(from [4]byte, kind header.ICMPv4Type, code header.ICMPv4Code, rest []byte) []byte {
	m := header.ICMPv4(append([]byte{byte(kind), byte(code), 0, 0}, rest...))
	m.SetChecksum(^checksum.Checksum(m, 0))
	return ipv4(from, guestIP, protoICMP, m)
}

// pingAnswer sends an echo request back. ip is the guest's packet, from inspect; its data goes back
// as it came.
func pingAnswer(ip []byte) []byte {
	return message([4]byte(ip[16:20]), header.ICMPv4EchoReply, 0, ip[ipLen+4:])
}

// strayCode is the code that ends the wait of a program for an answer in a protocol. Linux gives a
// connecting program an error for some codes only, and goes on trying at others.
func strayCode(proto byte) header.ICMPv4Code {
	switch proto {
	case protoTCP:
		return header.ICMPv4HostUnreachable
	case protoUDP:
		return header.ICMPv4PortUnreachable
	case protoICMP:
		return header.ICMPv4AdminProhibited
	}
	return header.ICMPv4ProtoUnreachable
}

// unreachable tells the guest that a packet of its own goes nowhere: its header and 8 bytes more go
// back. It comes from where the packet was for, or from the gateway where no packet can come from.
// That is what a kernel needs to find the socket it is about (RFC 792).
func unreachable(ip []byte, code header.ICMPv4Code) []byte {
	from := [4]byte(ip[16:20])
	if destinationKind(from) != "" {
		from = gatewayIP
	}
	return message(from, header.ICMPv4DstUnreachable, code, append(make([]byte, 4), ip[:min(len(ip), ipLen+8)]...))
}

// udp is a frame with one datagram from the gateway. It has no sum: IPv4 does without.
func udp(from, to uint16, dst [4]byte, payload []byte) []byte {
	h := header.UDP(make([]byte, udpLen))
	h.Encode(&header.UDPFields{SrcPort: from, DstPort: to, Length: uint16(udpLen + len(payload))})
	return ipv4(gatewayIP, dst, protoUDP, append(h, payload...))
}
