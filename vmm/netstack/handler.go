package netstack

import (
	"context"
	"net"
	"net/netip"
)

// Handler decides about everything that the box tries to reach, and carries what it allows. Many
// goroutines call its methods at once, within the limits of the stack. The contexts end when the
// stack is closed. A box makes as many calls as it likes, so an implementation that audits them
// bounds what it writes.
type Handler interface {
	// Lookup decides about a DNS query. If it returns nil, a query for the address is answered with
	// the name's synthetic address, and any other type with no records. An error is answered with
	// NXDOMAIN. Lookup must not ask a resolver, or the query would be a way out. The guest waits
	// for it.
	Lookup(ctx context.Context, q Question) error

	// Accept decides about a flow at its first packet. The guest waits, so Accept should be quick.
	// An error refuses the flow at once: a TCP connection is reset, and a datagram is answered with
	// an unreachable port.
	Accept(ctx context.Context, d Destination) error

	// Stream carries an accepted TCP connection. The stack closes c when it returns. The guest's
	// SYN is answered at the first Read or Write of c: if Stream dials first and returns the error
	// of the dial, the connection in the box is refused, too. After that an error resets the
	// connection.
	Stream(ctx context.Context, d Destination, c Conn) error

	// Packets carries the datagrams of an accepted UDP flow, one for each Read or Write of c. The
	// stack closes c when it returns. After some time without datagrams, Read returns
	// net.ErrClosed.
	Packets(ctx context.Context, d Destination, c net.Conn) error

	// Attempt reports what the stack itself has refused: frames that are neither ARP for the
	// gateway nor correct IPv4 of the box's address, ICMP to other addresses, malformed queries,
	// flows beyond a limit. A flood of one kind becomes a few reports with counts. Attempt must not
	// block for long: the network of the box waits.
	Attempt(a Attempt)
}

// Conn is the guest's end of a TCP connection.
type Conn interface {
	net.Conn
	// CloseWrite ends our direction: the guest reads EOF.
	CloseWrite() error
}

// Question is a DNS query. Name is canonical: lower case letters, digits, '-' and '_' in labels of
// 1 to 63 bytes, no dot at the end. The stack refuses other names, as attempts.
type Question struct {
	Name string
	Type uint16 // as in DNS: 1 is A, 28 AAAA, 16 TXT
}

// Destination is where a flow goes. The box chooses all of it. Name is the one that it queried; the
// flow itself may name another server (SNI, a Host header).
type Destination struct {
	Proto string         // "tcp" or "udp"
	Name  string         // canonical, when the box uses the synthetic address of an allowed name; "" for any other address
	Addr  netip.AddrPort // as the box sees it: the synthetic address when Name is not ""
}

// Attempt is something that the stack itself has refused.
type Attempt struct {
	Kind   Kind
	Detail string // for people: one short printable line about the first of them
	Count  int    // how many of this kind since the last report, at least 1
}

// Kind classifies attempts. Its values appear in audit logs.
type Kind string

// The kinds.
const (
	KindFrame     Kind = "frame"     // neither ARP nor IPv4, of no sensible length, or between other Ethernet addresses
	KindIPv6      Kind = "ipv6"      // of any sort: router advertisements and neighbour discovery included
	KindARP       Kind = "arp"       // spoofed, or for an address that nobody has
	KindSource    Kind = "source"    // an IPv4 packet from an address that is not the box's
	KindFragment  Kind = "fragment"  // of an IPv4 packet
	KindPacket    Kind = "packet"    // IPv4 that is malformed, has options, or is none of TCP, UDP and ICMP
	KindICMP      Kind = "icmp"      // other than a ping of the gateway
	KindMulticast Kind = "multicast" // or broadcast, except to the DHCP server
	KindDNS       Kind = "dns"       // a malformed query, or one for an impossible name
	KindLimit     Kind = "limit"     // a flow beyond the stack's limits
)
