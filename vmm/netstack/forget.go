package netstack

import (
	"encoding/binary"
	"net/netip"
)

// Forget resets a connection that the guest has kept from a life under another stack, between one
// of its ports and remote, so that a program that waits for data there does not wait for ever. It
// sends a segment that fits no connection: the guest answers with where it is, and the answer,
// which belongs to no connection of this stack, is reset exactly there (RFC 9293, 3.10.7.4). A
// connection that this stack does have is not harmed. It writes to the cable and waits for no
// answer.
func (s *Stack) Forget(port uint16, remote netip.AddrPort) {
	const ack = 0x10
	from := remote.Addr().As4()
	t := make([]byte, tcpLen)
	binary.BigEndian.PutUint16(t, remote.Port())
	binary.BigEndian.PutUint16(t[2:], port)
	t[12], t[13] = tcpLen/4<<4, ack
	pseudo := append(append([]byte{}, from[:]...), guestIP[:]...)
	pseudo = append(pseudo, 0, protoTCP, 0, tcpLen)
	binary.BigEndian.PutUint16(t[16:], ^sum(t, uint32(sum(pseudo, 0))))
	s.send(ipv4(from, guestIP, protoTCP, t))
}
