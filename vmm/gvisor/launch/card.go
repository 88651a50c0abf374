//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/netconfig"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/gvisor/plan"
	"agentbox/vmm/nsinit"
)

// cableEnd is the interface at our end of the cable. It stays in the machine's network namespace;
// the supervisor gets a packet socket on it.
const cableEnd = "cable"

// makeCard makes a pair of interfaces: one that runsc takes over with its addresses, which
// netconfig sets first, and one whose frames the supervisor reads and writes with a packet socket.
// Unlike a TAP, that needs no device of the host.
func (l *launcher) makeCard() (err error) {
	nsinit.DisableIPv6("default", "1") // of interfaces made from now on: the cable carries none
	if err := netconfig.Ask(pairMessage()); err != nil {
		return fmt.Errorf("make a pair of interfaces: %w", err)
	}
	if err := netconfig.Up(protocol.NetworkInterface, plan.MTU); err != nil {
		return err
	}
	if err := netconfig.LinkUp(cableEnd); err != nil {
		return err
	}
	end, err := net.InterfaceByName(cableEnd)
	if err != nil {
		return err
	}
	l.cable, err = packetSocket(end.Index)
	return err
}

// bringUpLoopback gives the loopback interface 127.0.0.1 and ::1, which runsc takes over.
func bringUpLoopback() error {
	nsinit.DisableIPv6("lo", "0") // whatever the host's is
	return netconfig.LinkUp("lo")
}

// packetSocket opens a socket that reads and writes the frames of an interface. With
// PACKET_IGNORE_OUTGOING it does not read the frames that it has written.
func packetSocket(index int) (int, error) {
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in the network's byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	// The buffers become as large as the host allows.
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<20)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		unix.Close(fd)
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		unix.Close(fd)
		return 0, os.NewSyscallError("bind", err)
	}
	return fd, nil
}

// pairMessage is the request for the two interfaces (rtnetlink(7), veth(4)).
func pairMessage() []byte {
	peer := append(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, append([]byte(cableEnd), 0))...)
	peer = append(peer, cardAttributes(protocol.GatewayMAC)...)
	const peerInfo = 1 // VETH_INFO_PEER
	link := append(attribute(unix.IFLA_INFO_KIND, []byte("veth")), attribute(unix.IFLA_INFO_DATA, attribute(peerInfo, peer))...)
	body := append(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, append([]byte(protocol.NetworkInterface), 0))...)
	body = append(body, cardAttributes(protocol.GuestMAC)...)
	body = append(body, attribute(unix.IFLA_LINKINFO, link)...)
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, unix.RTM_NEWLINK)
	m = binary.NativeEndian.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	return append(append(m, make([]byte, 8)...), body...)
}

func cardAttributes(mac string) []byte {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return nil
	}
	return append(attribute(unix.IFLA_ADDRESS, hw), attribute(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, plan.MTU))...)
}

// attribute encodes an attribute of a netlink message, padded to 4 bytes.
func attribute(kind uint16, value []byte) []byte {
	a := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	a = append(binary.NativeEndian.AppendUint16(a, kind), value...)
	return append(a, make([]byte, -len(a)&3)...)
}
