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
	maxFrame = etherLen + 0xffff // a card that segments late sends as much as an IPv4 packet can hold
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

// The two ends of the cable, as they stand in frames.
var (
	guestMAC   = mac(protocol.GuestMAC)
	gatewayMAC = mac(protocol.GatewayMAC)
	broadcast  = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	guestIP    = protocol.GuestAddr.As4()
	gatewayIP  = protocol.GatewayAddr.As4()
)

// mac is an address as it stands in frames, zero for text that is none.
func mac(s string) (m [6]byte) {
	if hw, err := net.ParseMAC(s); err == nil {
		copy(m[:], hw)
	}
	return m
}

// class is what is to be done with a frame from the guest.
type class int

const (
	classRefused   class = iota // with a Kind
	classIgnored                // harmless noise that nobody needs to hear of
	classTransport              // TCP or UDP for the stack
	classARP                    // a question for the gateway's Ethernet address
	classDHCP                   // a datagram for the DHCP server
	classPing                   // an echo request to the gateway
	classStray                  // what programs send to where nothing is, or in a protocol we do not speak: refused with an ICMP answer
)

// inspect decides what a frame from the guest is. It accepts nothing that is not exactly what the
// guest of the other end has to say: one Ethernet and one IPv4 address, no fragments, no options.
// Everything behind it may rely on that; ip is the packet of all classes but classRefused,
// classIgnored and classARP, without padding.
func inspect(frame []byte) (c class, kind Kind, ip []byte) {
	if len(frame) < etherLen || len(frame) > maxFrame || [6]byte(frame[6:12]) != guestMAC {
		return classRefused, KindFrame, nil
	}
	to, payload := [6]byte(frame[:6]), frame[etherLen:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv6:
		return classRefused, KindIPv6, nil
	case etherRARP:
		return classIgnored, "", nil // QEMU says so of every machine that it has restored
	case etherARP:
		return inspectARP(to, payload)
	case etherIPv4:
		return inspectIPv4(to, payload)
	}
	return classRefused, KindFrame, nil
}

// inspectARP allows a question for the gateway, and lets the guest speak about its own address
// only.
func inspectARP(to [6]byte, a []byte) (class, Kind, []byte) {
	const ethernetIPv4, request = "\x00\x01\x08\x00\x06\x04", 1
	if len(a) < arpLen || string(a[:6]) != ethernetIPv4 || to != broadcast && to != gatewayMAC {
		return classRefused, KindARP, nil
	}
	sender, target := [4]byte(a[14:18]), [4]byte(a[24:28])
	probe := sender == [4]byte{} // a guest that makes sure that nobody has its address
	if [6]byte(a[8:14]) != guestMAC || sender != guestIP && !probe {
		return classRefused, KindARP, nil
	}
	switch {
	case target == guestIP:
		return classIgnored, "", nil
	case binary.BigEndian.Uint16(a[6:]) == request && target == gatewayIP:
		return classARP, "", nil
	case sender == guestIP && target == gatewayIP:
		return classIgnored, "", nil // an answer to a question we never ask
	}
	return classRefused, KindARP, nil
}

// inspectIPv4 checks the packet in a frame to a hardware address, from the outside in: its header,
// its length, fragments, source, destination, content. DHCP comes before the source address, since
// a client may have none yet.
func inspectIPv4(to [6]byte, p []byte) (class, Kind, []byte) {
	if len(p) < ipLen || p[0] != 0x45 {
		return classRefused, KindPacket, nil
	}
	total := int(binary.BigEndian.Uint16(p[2:]))
	if total < ipLen || total > len(p) {
		return classRefused, KindPacket, nil
	}
	p = p[:total]
	const moreOrOffset = 0x3fff
	if binary.BigEndian.Uint16(p[6:])&moreOrOffset != 0 {
		return classRefused, KindFragment, nil
	}
	src, dst := [4]byte(p[12:16]), [4]byte(p[16:20])
	if isDHCP(p) && (src == guestIP || src == [4]byte{}) && (dst == gatewayIP || dst == [4]byte{255, 255, 255, 255}) {
		return classDHCP, "", p
	}
	if src != guestIP {
		return classRefused, KindSource, nil
	}
	kind := destinationKind(dst)
	if kind == "" && to != gatewayMAC {
		return classRefused, KindFrame, nil
	}
	c, wrong, p := inspectTransport(p, dst)
	switch {
	case kind == "":
		return c, wrong, p
	case c == classTransport: // a program waits for an answer
		return classStray, kind, p
	}
	return classRefused, kind, nil
}

// destinationKind refuses addresses that no packet on a cable can be sent to. It is "" for an
// address that can be one; whether there is anything there is the handler's to decide.
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

// inspectTransport checks as much of TCP, UDP and ICMP as those behind it rely on: a whole header,
// ports, lengths that fit the packet. p is cut to its length and goes to dst.
func inspectTransport(p []byte, dst [4]byte) (class, Kind, []byte) {
	t := p[ipLen:]
	switch p[9] {
	case protoTCP:
		if len(t) < tcpLen || !hasPorts(t) || int(t[12]>>4)*4 < tcpLen || int(t[12]>>4)*4 > len(t) {
			return classRefused, KindPacket, nil
		}
		return classTransport, "", p
	case protoUDP:
		if len(t) < udpLen || !hasPorts(t) || int(binary.BigEndian.Uint16(t[4:])) != len(t) {
			return classRefused, KindPacket, nil
		}
		return classTransport, "", p
	case protoICMP:
		return inspectICMP(p, dst)
	}
	return classStray, KindPacket, p
}

// hasPorts tells whether both ports are ones that somebody could listen on.
func hasPorts(t []byte) bool {
	return binary.BigEndian.Uint16(t) != 0 && binary.BigEndian.Uint16(t[2:]) != 0
}

// inspectICMP answers a ping of the gateway only: ICMP to elsewhere would carry data out. A ping of
// another address is told that it is prohibited, so that the program ends.
func inspectICMP(p []byte, dst [4]byte) (class, Kind, []byte) {
	const unreachable, echo = 3, 8
	t := p[ipLen:]
	switch {
	case len(t) < icmpLen:
		return classRefused, KindICMP, nil
	case t[0] == unreachable:
		return classIgnored, "", nil // nobody listens any more on the port that a datagram of ours was for
	case t[0] == echo && dst == gatewayIP:
		return classPing, "", p
	case t[0] == echo:
		return classStray, KindICMP, p
	}
	return classRefused, KindICMP, nil
}

// isDHCP tells a datagram from a DHCP client's port to the server's.
func isDHCP(p []byte) bool {
	const client, server = 68, 67
	if p[9] != protoUDP || len(p) < ipLen+udpLen {
		return false
	}
	t := p[ipLen:]
	return binary.BigEndian.Uint16(t) == client && binary.BigEndian.Uint16(t[2:]) == server && int(binary.BigEndian.Uint16(t[4:])) == len(t)
}
