package mesh

import (
	"net"

	"agentbox/agentbox"
)

// CheckSend returns an error if this machine itself refuses to send UDP to absent members, because
// of a firewall rule or a missing route. nil means that the cause is elsewhere. The error has code
// Unavailable and names a member and an address. It sends a byte to each address and waits for
// nothing; doctor calls it.
func (m *Mesh) CheckSend() error {
	peers, err := m.Peers()
	if err != nil {
		return err
	}
	for _, p := range peers {
		if p.Self || p.Online || p.Revoked || p.Left {
			continue
		}
		for _, a := range p.Addresses {
			if err := sendOne(net.UDPAddrFromAddrPort(a)); err != nil {
				return agentbox.Errorf(agentbox.Unavailable, "this machine cannot send UDP to %s at %s: %w", p.Name, a, err).
					WithHint("a rule of its own firewall forbids it, or no route leads there")
			}
		}
	}
	return nil
}

// sendOne sends a byte, which no node answers, as it is no QUIC packet. The kernel reports at once
// what it will not send.
func sendOne(to *net.UDPAddr) error {
	c, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte{0})
	return err
}
