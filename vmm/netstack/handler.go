package netstack

import (
	"context"
	"net"
	"net/netip"
)

// Handler decides about all that the box tries, and carries what it allows. Its methods
// are called from any number of goroutines at once, within the stack's limits, and their context
// ends when the stack is closed. An implementation audits what it is asked, and bounds how much
// of that it writes down: a box asks as often as it likes.
type Handler interface {
	// Lookup decides about a question to the resolver. nil allows the name: a question for its
	// address is then answered with the name's synthetic address, any other type with an empty
	// answer. An error is answered with NXDOMAIN. It asks no resolver itself, or the question would
	// be a way out. The guest waits for it.
	Lookup(ctx context.Context, q Question) error

	// Accept decides about a flow when its first packet is seen, before the guest is answered, so
	// it should be quick. An error refuses it at once: a TCP connection is reset, a datagram
	// answered with an unreachable port.
	Accept(ctx context.Context, d Destination) error

	// Stream carries an accepted TCP connection, and returns when it is over; the stack closes c
	// then. The guest's SYN is answered at the first Read or Write of c: a Stream that dials first,
	// and returns the error of a dial that failed, makes the connection in the box fail like the
	// one outside, as refused. Once data flowed an error resets it.
	Stream(ctx context.Context, d Destination, c Conn) error

	// Packets carries the datagrams of an accepted UDP flow, each Read or Write of c one of them,
	// and returns when it is over; the stack closes c then. A flow that has been idle for a while
	// reads net.ErrClosed.
	Packets(ctx context.Context, d Destination, c net.Conn) error

	// Attempt reports what the stack itself has refused: frames that are neither ARP for the
	// gateway nor sound IPv4 of the box's own address, ICMP to elsewhere, malformed questions,
	// flows beyond a limit. The stack reports a flood of one kind as a few attempts and a count. It
	// must not block for long: the box's network stands still meanwhile.
	Attempt(a Attempt)
}

// Conn is the guest's end of a TCP connection, with half-close. Its deadlines work.
type Conn interface {
	net.Conn
	// CloseWrite ends our direction, when the other side has ended its own: the guest reads EOF.
	CloseWrite() error
}

// Question is one question to the resolver. Name is canonical: lower case letters, digits, '-' and
// '_' in labels of 1 to 63 bytes, no dot at its end; a question with any other name has been
// refused as an attempt.
type Question struct {
	Name string
	Type uint16 // as in DNS: 1 is A, 28 AAAA, 16 TXT
}

// Destination is where the box wants to go. It is comparable. The box chooses all of it; a Name is
// the one that the resolver was asked for, and what the flow then says of itself (a server name, a
// Host header) may be another.
type Destination struct {
	Proto string         // "tcp" or "udp"
	Name  string         // canonical, when the box uses the synthetic address of an allowed name; "" for any other address
	Addr  netip.AddrPort // as the box sees it: the synthetic address when Name is not ""
}

// Attempt is something that the stack has refused by itself.
type Attempt struct {
	Kind   Kind
	Detail string // for people: one short printable line about the first of them
	Count  int    // how many of this kind since the last report, at least 1
}

// Kind classifies attempts; its values appear in audit logs.
type Kind string

// The kinds.
const (
	KindFrame     Kind = "frame"     // neither ARP nor IPv4, of no sensible length, or between other Ethernet addresses
	KindIPv6      Kind = "ipv6"      // of any sort: router advertisements and neighbour discovery included
	KindARP       Kind = "arp"       // spoofed, or a question for somebody who is not there
	KindSource    Kind = "source"    // an IPv4 packet from an address that is not the box's
	KindFragment  Kind = "fragment"  // of an IPv4 packet
	KindPacket    Kind = "packet"    // IPv4 that is malformed, has options, or is none of TCP, UDP and ICMP
	KindICMP      Kind = "icmp"      // other than a ping of the gateway
	KindMulticast Kind = "multicast" // to many at once, the DHCP server excepted
	KindDNS       Kind = "dns"       // a malformed question, or one for an impossible name
	KindLimit     Kind = "limit"     // a flow beyond the stack's limits
)
