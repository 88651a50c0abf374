package netstack

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// describe describes a refused frame in a short printable line. It never shows payload, which may
// be what the box tried to get out.
func describe(frame []byte) string {
	if len(frame) < etherLen {
		return fmt.Sprintf("a frame of %d bytes", len(frame))
	}
	from, to := net.HardwareAddr(frame[6:12]), net.HardwareAddr(frame[:6])
	kind := binary.BigEndian.Uint16(frame[12:])
	p := frame[etherLen:]
	switch {
	case kind == etherIPv4 && len(p) >= ipLen:
		return describeIPv4(p)
	case kind == etherARP && len(p) >= arpLen:
		return fmt.Sprintf("ARP: %s says it is %s and looks for %s", net.HardwareAddr(p[8:14]), addr4(p[14:]), addr4(p[24:]))
	case kind == etherIPv6 && len(p) >= 40:
		return fmt.Sprintf("IPv6 from %s to %s, next header %d", netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40])), p[6])
	}
	return fmt.Sprintf("a frame of %d bytes, type %#04x, from %s to %s", len(frame), kind, from, to)
}

// describeIPv4 describes a packet of at least 20 bytes, none of which was checked.
func describeIPv4(p []byte) string {
	const offset = 0x1fff
	s := fmt.Sprintf("IPv4 from %s to %s, protocol %d", addr4(p[12:]), addr4(p[16:]), p[9])
	switch {
	case p[0]>>4 != 4:
		return fmt.Sprintf("%s, version %d", s, p[0]>>4)
	case p[0]&15 != 5:
		return s + ", with options"
	case binary.BigEndian.Uint16(p[6:])&offset != 0:
		return s + ", a later fragment"
	case (p[9] == protoTCP || p[9] == protoUDP) && len(p) >= ipLen+4:
		return fmt.Sprintf("%s, port %d to %d", s, binary.BigEndian.Uint16(p[ipLen:]), binary.BigEndian.Uint16(p[ipLen+2:]))
	case p[9] == protoICMP && len(p) >= ipLen+2:
		return fmt.Sprintf("%s, type %d code %d", s, p[ipLen], p[ipLen+1])
	}
	return s
}

// addr4 returns the address in the first 4 bytes of b.
func addr4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b[:4])) }
