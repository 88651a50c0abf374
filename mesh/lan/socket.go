package lan

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/ipv4"

	"agentbox/agentbox"
)

// group is the address of multicast DNS.
var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

// maxLinks bounds the interfaces that are used.
const maxLinks = 16

// link is an interface with its IPv4 networks.
type link struct {
	index    int
	prefixes []netip.Prefix
}

func (l link) equal(o link) bool { return l.index == o.index && slices.Equal(l.prefixes, o.prefixes) }

// links lists the interfaces through which others may reach our listening address: all that can
// multicast, or only the one that has it, at most maxLinks. The order is the system's.
func links(listen netip.Addr) ([]link, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "mdns: list interfaces: %w", err)
	}
	var out []link
	for _, i := range all {
		const wanted = net.FlagUp | net.FlagMulticast
		if i.Flags&wanted != wanted || i.Flags&net.FlagLoopback != 0 || len(out) == maxLinks {
			continue
		}
		l := link{index: i.Index}
		addresses, _ := i.Addrs() // none of one that just went
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
				l.prefixes = append(l.prefixes, p)
			}
		}
		if slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return listen.IsUnspecified() || p.Addr() == listen }) {
			out = append(out, l)
		}
	}
	return out, nil
}

// socket sends and receives on some links. Beacon.closeSocket or Beacon.Close closes it.
type socket struct {
	udp    *net.UDPConn
	packet *ipv4.PacketConn
}

// listen opens the socket, on one link at first. Programs of this machine share the port.
func listen(first link) (*socket, error) {
	i, err := net.InterfaceByIndex(first.index)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "mdns: %w", err)
	}
	udp, err := net.ListenMulticastUDP("udp4", i, group)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "mdns: listen: %w", err)
	}
	s := &socket{udp: udp, packet: ipv4.NewPacketConn(udp)}
	// RFC 6762, 11. A packet without it is heard all the same.
	_ = s.packet.SetMulticastTTL(255)
	if err := s.packet.SetControlMessage(ipv4.FlagInterface, true); err != nil {
		return nil, errors.Join(agentbox.Errorf(agentbox.Unavailable, "mdns: %w", err), udp.Close())
	}
	return s, nil
}

// join makes the socket receive on links, too. Errors are for links that it has already joined or
// that have just gone.
func (s *socket) join(list []link) {
	for _, l := range list {
		_ = s.packet.JoinGroup(&net.Interface{Index: l.index}, group)
	}
}

// send sends a packet on all links. It is lost on a link that has just gone: packets are repeated.
func (s *socket) send(list []link, packet []byte) {
	for _, l := range list {
		_, _ = s.packet.WriteTo(packet, &ipv4.ControlMessage{IfIndex: l.index}, group)
	}
}

// onLink reports whether an address is on that link, as senders of multicast DNS must be.
func onLink(list []link, index int, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(l link) bool {
		return l.index == index && slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}
