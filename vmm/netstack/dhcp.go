package netstack

import (
	"encoding/binary"
	"net/netip"

	"agentbox/vmm/guest/protocol"
)

// DHCP (RFC 2131, RFC 2132). There is one lease, with the settings that the agent makes anyway.
const (
	dhcpHeader = 240 // up to and including the magic cookie
	dhcpCookie = "\x63\x82\x53\x63"

	optionMask      = 1
	optionRouter    = 3
	optionDNS       = 6
	optionMTU       = 26
	optionRequested = 50
	optionLease     = 51
	optionType      = 53
	optionServer    = 54
	optionEnd       = 255

	dhcpDiscover = 1
	dhcpOffer    = 2
	dhcpRequest  = 3
	dhcpACK      = 5
	dhcpNAK      = 6
	dhcpInform   = 8
)

// dhcpAnswer returns the answer to a message of a DHCP client, the payload of a datagram. It is nil
// for a malformed message, one of another Ethernet address, or a type that gets no answer.
func dhcpAnswer(m []byte) []byte {
	const bootRequest, bootReply, ethernet = 1, 2, 1
	if len(m) < dhcpHeader || m[0] != bootRequest || m[1] != ethernet || m[2] != 6 || [6]byte(m[28:34]) != guestMAC || string(m[236:240]) != dhcpCookie {
		return nil
	}
	options := dhcpOptions(m[dhcpHeader:])
	kind := dhcpReplyTo(m, options)
	if kind == 0 {
		return nil
	}
	r := make([]byte, dhcpHeader, 300)
	copy(r, m[:dhcpHeader])
	r[0], r[3] = bootReply, 0
	clear(r[8:28])   // seconds, flags and addresses
	clear(r[44:236]) // server name and boot file
	copy(r[10:12], m[10:12])
	if kind != dhcpNAK {
		copy(r[16:20], guestIP[:])
	}
	copy(r[20:24], gatewayIP[:])
	r = append(r, optionType, 1, kind, optionServer, 4)
	r = append(r, gatewayIP[:]...)
	if kind != dhcpNAK {
		r = append(r, dhcpLease()...)
	}
	r = append(r, optionEnd)
	return append(r, make([]byte, max(0, 300-len(r)))...) // BOOTP's least size
}

// dhcpReplyTo returns the type of the answer, 0 for none. A request for another address than that
// of the lease is refused, so that the client starts over.
func dhcpReplyTo(m []byte, options map[byte][]byte) byte {
	wanted := netip.AddrFrom4([4]byte(m[12:16])) // of a client that renews
	if b := options[optionRequested]; len(b) == 4 {
		wanted = addr4(b)
	}
	t := options[optionType]
	switch {
	case len(t) != 1:
		return 0
	case t[0] == dhcpDiscover:
		return dhcpOffer
	case t[0] == dhcpRequest && wanted == protocol.GuestAddr, t[0] == dhcpInform:
		return dhcpACK
	case t[0] == dhcpRequest:
		return dhcpNAK
	}
	return 0
}

// dhcpLease returns the options of every answer but a refusal: netmask, gateway, resolver, MTU, and
// a lease without end.
func dhcpLease() []byte {
	const infinite = 0xffffffff
	option := func(b []byte, code byte, value ...byte) []byte {
		return append(append(b, code, byte(len(value))), value...)
	}
	b := option(nil, optionMask, 255, 255, 255, byte(0xff<<(32-protocol.NetworkBits)&0xff))
	b = option(b, optionRouter, gatewayIP[:]...)
	b = option(b, optionDNS, gatewayIP[:]...)
	b = option(b, optionMTU, binary.BigEndian.AppendUint16(nil, protocol.NetworkMTU)...)
	return option(b, optionLease, binary.BigEndian.AppendUint32(nil, infinite)...)
}

// dhcpOptions reads options up to the end mark or the first that is malformed. If a code occurs
// twice, the last counts. Values are parts of b.
func dhcpOptions(b []byte) map[byte][]byte {
	const pad = 0
	out := map[byte][]byte{}
	for len(b) > 0 && b[0] != optionEnd {
		if b[0] == pad {
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			break
		}
		out[b[0]] = b[2 : 2+int(b[1])]
		b = b[2+int(b[1]):]
	}
	return out
}
