package netstack

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// ResetStale resets a connection between a port of the guest and remote that the guest has from
// before it was restored, so that no program waits for data forever. It sends a segment that fits
// no connection. The guest answers with its sequence number, and since the answer belongs to no
// connection of this stack, it is reset exactly there (RFC 9293, 3.10.7.4). A connection that this
// stack has is not harmed. ResetStale does not wait for the answer.
func (s *Stack) ResetStale(port uint16, remote netip.AddrPort) {
	from := remote.Addr().As4()
	t := header.TCP(make([]byte, tcpLen))
	t.Encode(&header.TCPFields{SrcPort: remote.Port(), DstPort: port, DataOffset: tcpLen, Flags: header.TCPFlagAck})
	pseudo := header.PseudoHeaderChecksum(header.TCPProtocolNumber, tcpip.AddrFrom4(from), tcpip.AddrFrom4(guestIP), tcpLen)
	t.SetChecksum(^t.CalculateChecksum(pseudo))
	s.send(ipv4(from, guestIP, protoTCP, t))
}
