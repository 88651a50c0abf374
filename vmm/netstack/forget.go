package netstack

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// Forget resets a connection that the guest has kept from a life under another stack, between one
// of its ports and remote, so that a program that waits for data there does not wait for ever. It
// sends a segment that fits no connection: the guest answers with where it is, and the answer,
// which belongs to no connection of this stack, is reset exactly there (RFC 9293, 3.10.7.4). A
// connection that this stack does have is not harmed. It writes to the cable and waits for no
// answer.
func (s *Stack) Forget(port uint16, remote netip.AddrPort) {
	from := remote.Addr().As4()
	t := header.TCP(make([]byte, tcpLen))
	t.Encode(&header.TCPFields{SrcPort: remote.Port(), DstPort: port, DataOffset: tcpLen, Flags: header.TCPFlagAck})
	pseudo := header.PseudoHeaderChecksum(header.TCPProtocolNumber, tcpip.AddrFrom4(from), tcpip.AddrFrom4(guestIP), tcpLen)
	t.SetChecksum(^t.CalculateChecksum(pseudo))
	s.send(ipv4(from, guestIP, protoTCP, t))
}
