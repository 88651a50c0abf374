package netstack

import (
	"encoding/binary"
	"net"
	"net/netip"

	"agentbox/vmm/guest/protocol"
)

// Sizes and numbers of Ethernet, ARP and IPv4.
const (
	etherLen = 14
	maxFrame = etherLen + 0xffff // with segmentation offload, the longest IPv4 packet
	ipLen    = 20
	udpLen   = 8
	tcpLen   = 20
	icmpLen  = 8
	arpLen   = 28

	etherIPv4 = 0x0800
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
	etherRARP = 0x8035

	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
)

// The addresses of the two ends of the link, as in frames.
var (
	guestMAC   = mac(protocol.GuestMAC)
	gatewayMAC = mac(protocol.GatewayMAC)
	broadcast  = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	guestIP    = protocol.GuestAddr.As4()
	gatewayIP  = protocol.GatewayAddr.As4()
)

// mac parses an Ethernet address. It is zero for text that is none.
func mac(s string) (m [6]byte) {
	if hw, err := net.ParseMAC(s); err == nil {
		copy(m[:], hw)
	}
	return m
}

// class says what happens with a frame from the guest.
type class int

const (
	classDropped   class = iota // without an answer; with a Kind
	classIgnored                // harmless noise, which is not reported
	classTransport              // TCP or UDP for gVisor's stack
	classARP                    // a request for the gateway's Ethernet address
	classDHCP                   // a datagram for the DHCP server
	classPing                   // an echo request to the gateway
	classRejected               // answered with an ICMP error, because a program waits; with a Kind
)

// inspect classifies a frame from the guest. It accepts only what the one guest may send: from one
// Ethernet and one IPv4 address, no fragments, no options. Everything after it relies on that. ip
// is the packet without padding, for all classes but classDropped, classIgnored and classARP.
func inspect(frame []byte) (c class, kind Kind, ip []byte) {
	if len(frame) < etherLen || len(frame) > maxFrame || [6]byte(frame[6:12]) != guestMAC {
		return classDropped, KindFrame, nil
	}
	to, payload := [6]byte(frame[:6]), frame[etherLen:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv6:
		return classDropped, KindIPv6, nil
	case etherRARP:
		return classIgnored, "", nil // QEMU announces every restored machine
	case etherARP:
		return inspectARP(to, payload)
	case etherIPv4:
		return inspectIPv4(to, payload)
	}
	return classDropped, KindFrame, nil
}

// inspectARP allows a request for the gateway's address, and announcements of the guest's own.
func inspectARP(to [6]byte, a []byte) (class, Kind, []byte) {
	const ethernetIPv4, request = "\x00\x01\x08\x00\x06\x04", 1
	if len(a) < arpLen || string(a[:6]) != ethernetIPv4 || to != broadcast && to != gatewayMAC {
		return classDropped, KindARP, nil
	}
	sender, target := [4]byte(a[14:18]), [4]byte(a[24:28])
	probe := sender == [4]byte{} // whether another machine has the guest's address (RFC 5227)
	if [6]byte(a[8:14]) != guestMAC || sender != guestIP && !probe {
		return classDropped, KindARP, nil
	}
	switch {
	case target == guestIP:
		return classIgnored, "", nil
	case binary.BigEndian.Uint16(a[6:]) == request && target == gatewayIP:
		return classARP, "", nil
	case sender == guestIP && target == gatewayIP:
		return classIgnored, "", nil // an answer to a request that we never send
	}
	return classDropped, KindARP, nil
}

// inspectIPv4 checks a packet in a frame to an Ethernet address. DHCP comes before the check of the
// source address, since a client may have none yet.
func inspectIPv4(to [6]byte, p []byte) (class, Kind, []byte) {
	if len(p) < ipLen || p[0] != 0x45 {
		return classDropped, KindPacket, nil
	}
	total := int(binary.BigEndian.Uint16(p[2:]))
	if total < ipLen || total > len(p) {
		return classDropped, KindPacket, nil
	}
	p = p[:total]
	const moreOrOffset = 0x3fff
	if binary.BigEndian.Uint16(p[6:])&moreOrOffset != 0 {
		return classDropped, KindFragment, nil
	}
	src, dst := [4]byte(p[12:16]), [4]byte(p[16:20])
	if isDHCP(p) && (src == guestIP || src == [4]byte{}) && (dst == gatewayIP || dst == [4]byte{255, 255, 255, 255}) {
		return classDHCP, "", p
	}
	if src != guestIP {
		return classDropped, KindSource, nil
	}
	kind := destinationKind(dst)
	if kind == "" && to != gatewayMAC {
		return classDropped, KindFrame, nil
	}
	c, wrong, p := inspectTransport(p, dst)
	switch {
	case kind == "":
		return c, wrong, p
	case c == classTransport: // a program waits for an answer
		return classRejected, kind, p
	}
	return classDropped, kind, nil
}

// destinationKind refuses destinations that no packet on a link can have. It is "" for all others,
// about which the handler decides.
func destinationKind(dst [4]byte) Kind {
	addr := netip.AddrFrom4(dst)
	switch {
	case dst[0] >= 224:
		return KindMulticast
	case addr.IsLoopback(), dst[0] == 0, dst == guestIP:
		return KindPacket
	}
	return ""
}

// inspectTransport checks what later code relies on in TCP, UDP and ICMP: a complete header, ports,
// and lengths that fit the packet. p is cut to its length.
func inspectTransport(p []byte, dst [4]byte) (class, Kind, []byte) {
	t := p[ipLen:]
	switch p[9] {
	case protoTCP:
		if len(t) < tcpLen || !hasPorts(t) || int(t[12]>>4)*4 < tcpLen || int(t[12]>>4)*4 > len(t) {
			return classDropped, KindPacket, nil
		}
		return classTransport, "", p
	case protoUDP:
		if len(t) < udpLen || !hasPorts(t) || int(binary.BigEndian.Uint16(t[4:])) != len(t) {
			return classDropped, KindPacket, nil
		}
		return classTransport, "", p
	case protoICMP:
		return inspectICMP(p, dst)
	}
	return classRejected, KindPacket, p
}

func hasPorts(t []byte) bool {
	return binary.BigEndian.Uint16(t) != 0 && binary.BigEndian.Uint16(t[2:]) != 0
}

// inspectICMP allows pings of the gateway only: ICMP to other addresses would carry data out. A
// ping of another address gets an ICMP error, so that the program ends.
func inspectICMP(p []byte, dst [4]byte) (class, Kind, []byte) {
	const unreachable, echo = 3, 8
	t := p[ipLen:]
	switch {
	case len(t) < icmpLen:
		return classDropped, KindICMP, nil
	case t[0] == unreachable:
		return classIgnored, "", nil // of a datagram of ours to a port that was closed meanwhile
	case t[0] == echo && dst == gatewayIP:
		return classPing, "", p
	case t[0] == echo:
		return classRejected, KindICMP, p
	}
	return classDropped, KindICMP, nil
}

// isDHCP tells whether p is a datagram from the DHCP client's port to the server's.
func isDHCP(p []byte) bool {
	const client, server = 68, 67
	if p[9] != protoUDP || len(p) < ipLen+udpLen {
		return false
	}
	t := p[ipLen:]
	return binary.BigEndian.Uint16(t) == client && binary.BigEndian.Uint16(t[2:]) == server && int(binary.BigEndian.Uint16(t[4:])) == len(t)
}
