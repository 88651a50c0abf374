package netstack

import (
	"encoding/binary"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// This file builds the frames that do not come from gVisor's stack: answers to ARP and ping, ICMP
// errors, and datagrams of DHCP and DNS.

// ether returns the header of a frame to the guest with an EtherType. Callers append the packet.
func ether(kind uint16) []byte {
	h := make([]byte, 0, etherLen)
	h = append(h, guestMAC[:]...)
	h = append(h, gatewayMAC[:]...)
	return binary.BigEndian.AppendUint16(h, kind)
}

// arpAnswer answers a request that inspectARP has accepted with the gateway's address.
func arpAnswer(request []byte) []byte {
	const answer = 2
	f := append(ether(etherARP), request[etherLen:etherLen+6]...)
	f = binary.BigEndian.AppendUint16(f, answer)
	f = append(append(f, gatewayMAC[:]...), gatewayIP[:]...)
	return append(append(f, guestMAC[:]...), request[etherLen+14:etherLen+18]...)
}

// ipv4 makes a frame with an IPv4 packet to the guest. The packet is not to be fragmented, so its
// identification may be 0 (RFC 6864).
func ipv4(from, to [4]byte, proto byte, payload []byte) []byte {
	h := header.IPv4(make([]byte, ipLen))
	h.Encode(&header.IPv4Fields{
		TotalLength: uint16(ipLen + len(payload)), Flags: header.IPv4FlagDontFragment, TTL: 64, Protocol: proto,
		SrcAddr: tcpip.AddrFrom4(from), DstAddr: tcpip.AddrFrom4(to),
	})
	h.SetChecksum(^h.CalculateChecksum())
	return append(append(ether(etherIPv4), h...), payload...)
}

// icmpMessage makes a frame with an ICMP message. rest follows the checksum.
func icmpMessage(from [4]byte, kind header.ICMPv4Type, code header.ICMPv4Code, rest []byte) []byte {
	m := header.ICMPv4(append([]byte{byte(kind), byte(code), 0, 0}, rest...))
	m.SetChecksum(^checksum.Checksum(m, 0))
	return ipv4(from, guestIP, protoICMP, m)
}

// pingAnswer answers an echo request that inspect has accepted.
func pingAnswer(ip []byte) []byte {
	return icmpMessage([4]byte(ip[16:20]), header.ICMPv4EchoReply, 0, ip[ipLen+4:])
}

// unreachableCode returns the ICMP code after which a program no longer waits for an answer. For
// other codes Linux goes on trying to connect.
func unreachableCode(proto byte) header.ICMPv4Code {
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

// unreachable tells the guest that its packet cannot be delivered. The error has the packet's
// header and 8 bytes more, by which the guest's kernel finds the socket (RFC 792). It comes from
// the packet's destination, or from the gateway if nothing can come from there.
func unreachable(ip []byte, code header.ICMPv4Code) []byte {
	from := [4]byte(ip[16:20])
	if destinationKind(from) != "" {
		from = gatewayIP
	}
	return icmpMessage(from, header.ICMPv4DstUnreachable, code, append(make([]byte, 4), ip[:min(len(ip), ipLen+8)]...))
}

// udp makes a frame with the gateway's datagram, without a checksum, which IPv4 allows.
func udp(from, to uint16, dst [4]byte, payload []byte) []byte {
	h := header.UDP(make([]byte, udpLen))
	h.Encode(&header.UDPFields{SrcPort: from, DstPort: to, Length: uint16(udpLen + len(payload))})
	return ipv4(gatewayIP, dst, protoUDP, append(h, payload...))
}
