package netstack

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"
)

// frame is a frame from the guest with any payload.
func frame(to, from [6]byte, kind uint16, payload []byte) []byte {
	f := append(append([]byte{}, to[:]...), from[:]...)
	return append(binary.BigEndian.AppendUint16(f, kind), payload...)
}

// packet is a frame from the guest with one IPv4 packet, changed by edit before its sum is made.
func packet(dst string, proto byte, payload []byte, edit func(ip []byte)) []byte {
	f := ipv4(guestIP, netip.MustParseAddr(dst).As4(), proto, payload)
	copy(f, frame(gatewayMAC, guestMAC, etherIPv4, nil))
	ip := f[etherLen:]
	if edit != nil {
		edit(ip)
	}
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^checksum.Checksum(ip[:ipLen], 0))
	return f
}

// datagram is a frame from the guest with one UDP datagram.
func datagram(dst string, from, to uint16, payload []byte, edit func(ip []byte)) []byte {
	u := udp(from, to, guestIP, payload)[etherLen+ipLen:]
	return packet(dst, protoUDP, u, edit)
}

// syn is a frame from the guest that asks for a TCP connection.
func syn(dst string, to uint16, edit func(ip []byte)) []byte {
	t := make([]byte, tcpLen)
	binary.BigEndian.PutUint16(t, 40000)
	binary.BigEndian.PutUint16(t[2:], to)
	t[12], t[13] = 5<<4, 2
	return packet(dst, protoTCP, t, edit)
}

func arpFrame(op uint16, senderMAC [6]byte, sender, target [4]byte) []byte {
	a := []byte{0, 1, 8, 0, 6, 4}
	a = binary.BigEndian.AppendUint16(a, op)
	a = append(append(a, senderMAC[:]...), sender[:]...)
	return frame(broadcast, guestMAC, etherARP, append(append(a, make([]byte, 6)...), target[:]...))
}

func from(src string) func([]byte) {
	return func(ip []byte) { a := netip.MustParseAddr(src).As4(); copy(ip[12:], a[:]) }
}

var (
	stranger  = [6]byte{2, 1, 1, 1, 1, 1}
	multicast = [6]byte{1, 0, 0x5e, 0, 0, 0xfb}
	nobody    = [4]byte{}
	echo      = []byte{8, 0, 0, 0, 0, 1, 0, 1, 's', 'e', 'c', 'r', 'e', 't'}
)

// attacks are frames with which a guest may try to pass for somebody else or to get something out,
// and what becomes of each. They are the fuzzer's seeds, too.
var attacks = []struct {
	name  string
	frame []byte
	class class
	kind  Kind
}{
	{"nothing", nil, classDropped, KindFrame},
	{"half a header", make([]byte, 13), classDropped, KindFrame},
	{"an empty frame", frame(gatewayMAC, guestMAC, etherIPv4, nil), classDropped, KindPacket},
	{"the longest frame", frame(gatewayMAC, guestMAC, etherIPv4, make([]byte, 0xffff)), classDropped, KindPacket},
	{"a frame that is too long", frame(gatewayMAC, guestMAC, etherIPv4, make([]byte, 0x10000)), classDropped, KindFrame},
	{"another card's frame", frame(gatewayMAC, stranger, etherIPv4, make([]byte, 40)), classDropped, KindFrame},
	{"the gateway's own frame", frame(gatewayMAC, gatewayMAC, etherIPv4, make([]byte, 40)), classDropped, KindFrame},
	{"a frame to a stranger", func() []byte { f := syn("203.0.113.7", 443, nil); copy(f, stranger[:]); return f }(), classDropped, KindFrame},
	{"a VLAN", frame(gatewayMAC, guestMAC, 0x8100, make([]byte, 46)), classDropped, KindFrame},
	{"802.3 and LLC", frame(gatewayMAC, guestMAC, 38, make([]byte, 46)), classDropped, KindFrame},
	{"what QEMU announces", frame(broadcast, guestMAC, 0x8035, make([]byte, 46)), classIgnored, ""},
	{"EAPOL", frame(gatewayMAC, guestMAC, 0x888e, make([]byte, 46)), classDropped, KindFrame},
	{"raw bytes", frame(broadcast, guestMAC, 0x88b5, []byte("secret")), classDropped, KindFrame},

	{"IPv6 neighbour discovery", frame([6]byte{0x33, 0x33}, guestMAC, etherIPv6, make([]byte, 72)), classDropped, KindIPv6},
	{"an IPv6 router advertisement", frame(gatewayMAC, guestMAC, etherIPv6, append([]byte{0x60, 0, 0, 0, 0, 16, 58, 255}, make([]byte, 48)...)), classDropped, KindIPv6},

	{"ARP for the gateway", arpFrame(1, guestMAC, guestIP, gatewayIP), classARP, ""},
	{"ARP about oneself", arpFrame(1, guestMAC, guestIP, guestIP), classIgnored, ""},
	{"a probe of one's own address", arpFrame(1, guestMAC, nobody, guestIP), classIgnored, ""},
	{"ARP for a neighbour", arpFrame(1, guestMAC, guestIP, [4]byte{198, 18, 0, 3}), classDropped, KindARP},
	{"ARP as the gateway", arpFrame(2, guestMAC, gatewayIP, guestIP), classDropped, KindARP},
	{"ARP as a stranger", arpFrame(1, stranger, guestIP, gatewayIP), classDropped, KindARP},
	{"short ARP", frame(broadcast, guestMAC, etherARP, make([]byte, 27)), classDropped, KindARP},

	{"a connection", syn("203.0.113.7", 443, nil), classTransport, ""},
	{"a padded connection", append(syn("203.0.113.7", 443, nil), make([]byte, 6)...), classTransport, ""},
	{"a datagram", datagram("203.0.113.7", 5000, 443, []byte("x"), nil), classTransport, ""},
	{"a spoofed source", syn("203.0.113.7", 443, from("203.0.113.9")), classDropped, KindSource},
	{"the gateway's address as source", syn("203.0.113.7", 443, from("198.18.0.1")), classDropped, KindSource},
	{"no source", datagram("203.0.113.7", 5000, 53, []byte("x"), from("0.0.0.0")), classDropped, KindSource},
	{"oneself", syn("198.18.0.2", 443, nil), classRejected, KindPacket},
	{"loopback", syn("127.0.0.1", 443, nil), classRejected, KindPacket},
	{"address zero", syn("0.0.0.0", 443, nil), classRejected, KindPacket},
	{"mDNS", func() []byte {
		f := datagram("224.0.0.251", 5353, 5353, []byte("x"), nil)
		copy(f, multicast[:])
		return f
	}(), classRejected, KindMulticast},
	{"a broadcast", func() []byte {
		f := datagram("255.255.255.255", 5000, 5001, []byte("x"), nil)
		copy(f, broadcast[:])
		return f
	}(), classRejected, KindMulticast},
	{"class E", syn("240.0.0.1", 443, nil), classRejected, KindMulticast},
	{"a connection to many", syn("224.0.0.1", 443, nil), classRejected, KindMulticast},
	{"a connection to all", syn("255.255.255.255", 443, nil), classRejected, KindMulticast},
	{"a malformed connection to many", packet("224.0.0.1", protoTCP, make([]byte, 19), nil), classDropped, KindMulticast},
	{"a ping of many", packet("224.0.0.1", protoICMP, echo, nil), classDropped, KindMulticast},
	{"IGMP to many", packet("224.0.0.22", 2, echo, nil), classDropped, KindMulticast},

	{"a first fragment", datagram("203.0.113.7", 5000, 53, []byte("x"), func(ip []byte) { ip[6] = 0x20 }), classDropped, KindFragment},
	{"a later fragment", datagram("203.0.113.7", 5000, 53, []byte("x"), func(ip []byte) { ip[6], ip[7] = 0, 1 }), classDropped, KindFragment},
	{"a fragment of a ping", packet("198.18.0.1", protoICMP, echo, func(ip []byte) { ip[6] = 0x20 }), classDropped, KindFragment},
	{"options", syn("203.0.113.7", 443, func(ip []byte) { ip[0] = 0x46 }), classDropped, KindPacket},
	{"version 6", syn("203.0.113.7", 443, func(ip []byte) { ip[0] = 0x65 }), classDropped, KindPacket},
	{"a header of 4 bytes", syn("203.0.113.7", 443, func(ip []byte) { ip[0] = 0x41 }), classDropped, KindPacket},
	{"a length beyond the frame", syn("203.0.113.7", 443, func(ip []byte) { ip[3]++ }), classDropped, KindPacket},
	{"a length below the header", syn("203.0.113.7", 443, func(ip []byte) { ip[3] = 19 }), classDropped, KindPacket},
	{"TCP port zero", syn("203.0.113.7", 0, nil), classDropped, KindPacket},
	{"TCP options beyond the end", syn("203.0.113.7", 443, func(ip []byte) { ip[ipLen+12] = 0xf0 }), classDropped, KindPacket},
	{"a short TCP header", packet("203.0.113.7", protoTCP, make([]byte, 19), nil), classDropped, KindPacket},
	{"UDP port zero", datagram("203.0.113.7", 5000, 0, nil, nil), classDropped, KindPacket},
	{"a UDP length that is off", datagram("203.0.113.7", 5000, 53, nil, func(ip []byte) { ip[ipLen+5]++ }), classDropped, KindPacket},
	{"a short UDP header", packet("203.0.113.7", protoUDP, make([]byte, 7), nil), classDropped, KindPacket},

	{"a ping of the gateway", packet("198.18.0.1", protoICMP, echo, nil), classPing, ""},
	{"a ping with a payload to elsewhere", packet("203.0.113.7", protoICMP, echo, nil), classRejected, KindICMP},
	{"an ICMP answer nobody asked for", packet("203.0.113.7", protoICMP, append([]byte{0, 0}, echo[2:]...), nil), classDropped, KindICMP},
	{"an ICMP redirect", packet("198.18.0.1", protoICMP, append([]byte{5, 1}, echo[2:]...), nil), classDropped, KindICMP},
	{"an ICMP timestamp", packet("198.18.0.1", protoICMP, append([]byte{13, 0}, echo[2:]...), nil), classDropped, KindICMP},
	{"port unreachable", packet("198.18.0.1", protoICMP, append([]byte{3, 3}, echo[2:]...), nil), classIgnored, ""},
	{"short ICMP", packet("198.18.0.1", protoICMP, echo[:7], nil), classDropped, KindICMP},
	{"IGMP", packet("203.0.113.7", 2, echo, nil), classRejected, KindPacket},
	{"SCTP", packet("203.0.113.7", 132, echo, nil), classRejected, KindPacket},
	{"GRE", packet("203.0.113.7", 47, echo, nil), classRejected, KindPacket},
	{"Teredo", datagram("203.0.113.7", 5000, 3544, append([]byte{0x60, 0, 0, 0, 0, 0, 59, 21}, make([]byte, 32)...), nil), classTransport, ""},
	{"IPv6 in IPv4", packet("192.88.99.1", 41, echo, nil), classRejected, KindPacket},

	{"DHCP", datagram("255.255.255.255", 68, 67, dhcpMessage(dhcpDiscover), from("0.0.0.0")), classDHCP, ""},
	{"DHCP to elsewhere", datagram("203.0.113.7", 68, 67, dhcpMessage(dhcpDiscover), nil), classTransport, ""},
	{"DHCP of somebody else", datagram("255.255.255.255", 68, 67, dhcpMessage(dhcpDiscover), from("203.0.113.9")), classDropped, KindSource},
}

func TestInspect(t *testing.T) {
	for _, a := range attacks {
		c, kind, ip := inspect(a.frame)
		if c != a.class || kind != a.kind {
			t.Errorf("%s: class %d, kind %q; want %d, %q", a.name, c, kind, a.class, a.kind)
		}
		if (c == classTransport || c == classPing || c == classRejected || c == classDHCP) && int(binary.BigEndian.Uint16(ip[2:])) != len(ip) {
			t.Errorf("%s: a packet of %d bytes says it has %d", a.name, len(ip), binary.BigEndian.Uint16(ip[2:]))
		}
	}
}

// Every attempt is reported, and what is refused gets no answer but an ICMP error to the guest
// itself.
func TestAttacksAreReportedAndDropped(t *testing.T) {
	for _, a := range attacks {
		if a.class != classDropped && a.class != classRejected {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			p := &policy{
				lookup: func(Question) error { t.Error("the resolver was asked"); return nil },
				accept: func(d Destination) error { t.Errorf("a flow to %v was to be decided", d); return nil },
			}
			_, c := startStack(t, p, maxStreams, maxFlows)
			c.send(t, a.frame)
			got := p.awaitAttempt(t, a.kind)
			if bytes.Contains([]byte(got.Detail), []byte("secret")) || got.Detail == "" || got.Count != 1 {
				t.Errorf("reported as %+v", got)
			}
			if a.class == classRejected {
				r := c.receive(t)[etherLen:]
				quoted := r[ipLen+icmpLen:]
				if r[ipLen] != 3 || !bytes.Equal(quoted, a.frame[etherLen:][:len(quoted)]) {
					t.Errorf("answered with %x", r)
				}
				if from := [4]byte(r[12:16]); destinationKind(from) != "" {
					t.Errorf("answered by %v, which no guest believes", from)
				}
			}
		})
	}
}

// Frames of any length, filled with nothing or cut off anywhere, are refused and harm nothing.
func TestFrameLengths(t *testing.T) {
	const longest = 1600
	p := &policy{accept: func(d Destination) error { t.Errorf("a flow to %v was to be decided", d); return nil }}
	_, c := startStack(t, p, maxStreams, maxFlows)
	whole := [][]byte{
		datagram("203.0.113.7", 5000, 443, make([]byte, longest), nil),
		packet("198.18.0.1", protoICMP, append(bytes.Clone(echo), make([]byte, longest)...), nil),
	}
	for n := range longest + 1 {
		c.send(t, make([]byte, n))
		for _, kind := range []uint16{etherIPv4, etherARP, etherIPv6, 0x8100, 0x88b5} {
			c.send(t, frame(gatewayMAC, guestMAC, kind, make([]byte, n)))
		}
		for _, f := range whole {
			c.send(t, f[:n])
		}
	}
	c.send(t, arpFrame(1, guestMAC, guestIP, gatewayIP))
	if got := c.receive(t); binary.BigEndian.Uint16(got[12:]) != etherARP {
		t.Errorf("answered with %x", got)
	}
}

func TestFloodsAreCounted(t *testing.T) {
	const n = 5000
	p := &policy{}
	_, c := startStack(t, p, maxStreams, maxFlows)
	for range n {
		c.send(t, frame(gatewayMAC, stranger, etherIPv4, nil))
	}
	c.send(t, arpFrame(1, guestMAC, guestIP, gatewayIP))
	c.receive(t) // what was sent before has been handled
	sum := 0
	for sum < n {
		sum = 0
		for _, a := range p.seen() {
			sum += a.Count
		}
		if sum < n {
			p.awaitAttempt(t, KindFrame)
			<-p.more
		}
	}
	if reports := len(p.seen()); sum != n || reports > n/10 {
		t.Errorf("%d attempts are reported as %d, in %d reports", n, sum, reports)
	}
}

func TestAnswers(t *testing.T) {
	_, c := startStack(t, &policy{}, maxStreams, maxFlows)
	c.send(t, arpFrame(1, guestMAC, guestIP, gatewayIP))
	want := frame(guestMAC, gatewayMAC, etherARP, []byte("\x00\x01\x08\x00\x06\x04\x00\x02"))
	want = append(append(want, gatewayMAC[:]...), gatewayIP[:]...)
	want = append(append(want, guestMAC[:]...), guestIP[:]...)
	if got := c.receive(t); !bytes.Equal(got, want) {
		t.Errorf("ARP is answered with\n%x, not\n%x", got, want)
	}
	c.send(t, packet("198.18.0.1", protoICMP, echo, nil))
	got := c.receive(t)[etherLen:]
	if checksum.Checksum(got[:ipLen], 0) != 0xffff || checksum.Checksum(got[ipLen:], 0) != 0xffff || got[ipLen] != 0 || !bytes.Equal(got[ipLen+4:], echo[4:]) {
		t.Errorf("a ping is answered with %x", got)
	}
}

func FuzzFrames(f *testing.F) {
	for _, a := range attacks {
		f.Add(a.frame)
	}
	p := (&policy{}).allowAll()
	p.stream = holdOpen
	p.packets = discard
	_, c := startStack(f, p, 16, 16)
	go func() {
		for {
			select {
			case <-c.toGuest:
			case <-c.cut:
				return
			}
		}
	}()
	f.Fuzz(func(t *testing.T, b []byte) {
		class, kind, _ := inspect(b)
		if (class == classDropped || class == classRejected) == (kind == "") {
			t.Errorf("class %d has kind %q", class, kind)
		}
		c.send(t, b)
	})
}
