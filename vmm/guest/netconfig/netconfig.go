//go:build linux

// Package netconfig configures the network card of a box in the current Linux network namespace:
// the guest's own, or the one that gVisor takes the configuration from. It knows the one network
// that every box has (vmm/guest/protocol), and changes nothing else.
//
// The guest agent calls Up while it boots a virtual machine, the launcher of a gVisor machine
// before it starts runsc; both call LinkUp for their loopback interface. The launcher also uses Ask
// for its own requests. The package makes ioctls and speaks rtnetlink itself, since an image need
// not have a program for that. Both small programs link it, so it imports no library but
// golang.org/x/sys.
package netconfig

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// Up gives the named interface the guest's address and the default route, and brings it up. mtu is
// in bytes of a packet. It may be repeated. The caller needs CAP_NET_ADMIN in the namespace.
func Up(name string, mtu int) error {
	if err := card(name, mtu); err != nil {
		return err
	}
	if err := Ask(routeMessage(protocol.GatewayAddr.As4())); err != nil {
		return fmt.Errorf("route to %s: %w", protocol.GatewayAddr, err)
	}
	return nil
}

// setting is one property of an interface, set by an ioctl.
type setting struct {
	what    string
	request uint
	set     func(*unix.Ifreq) error
}

// up brings an interface up.
var up = setting{"state", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }}

// LinkUp does what `ip link set NAME up` does.
func LinkUp(name string) error { return configure(name, up) }

// card does what `ip link set` and `ip address add` do.
func card(name string, mtu int) error {
	mask := net.CIDRMask(protocol.NetworkBits, 32)
	addr := protocol.GuestAddr.As4()
	return configure(name,
		setting{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(mtu)); return nil }},
		setting{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr[:]) }},
		// After the address, which sets a mask of its own.
		setting{"mask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }},
		up)
}

// configure applies settings to the named interface. The error names the one that failed.
func configure(name string, settings ...setting) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	for _, s := range settings {
		ifr, err := unix.NewIfreq(name)
		if err == nil {
			err = s.set(ifr)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, s.request, ifr)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", s.what, name, err)
		}
	}
	return nil
}

// Ask sends the kernel a request of rtnetlink(7) and waits for its acknowledgement, so request, a
// whole message, must have the flag NLM_F_ACK. An error of the kernel's is a unix.Errno.
func Ask(request []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// An acknowledgement quotes the request behind its code, and fits easily.
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("the kernel answered %x", answer[:n])
	}
	if code := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(code)
	}
	return nil
}

// routeMessage does what `ip route add default via` does (rtnetlink(7)).
func routeMessage(gateway [4]byte) []byte {
	const length = unix.SizeofNlMsghdr + unix.SizeofRtMsg + 8
	native := binary.NativeEndian
	m := native.AppendUint32(nil, length)
	m = native.AppendUint16(m, unix.RTM_NEWROUTE)
	m = native.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	m = append(m, make([]byte, 8)...) // sequence and port
	m = append(m, unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST)
	m = native.AppendUint32(m, 0) // flags
	m = native.AppendUint16(m, 8)
	m = native.AppendUint16(m, unix.RTA_GATEWAY)
	return append(m, gateway[:]...)
}

// AddressMessage does what `ip link set address` does, for the interface of an index.
func AddressMessage(index int, mac net.HardwareAddr) []byte {
	const length = unix.SizeofNlMsghdr + unix.SizeofIfInfomsg + 12
	native := binary.NativeEndian
	m := native.AppendUint32(nil, length)
	m = native.AppendUint16(m, unix.RTM_SETLINK)
	m = native.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = append(m, make([]byte, 8+4)...) // sequence and port; family and type
	m = native.AppendUint32(m, uint32(index))
	m = append(m, make([]byte, 8)...) // flags
	m = native.AppendUint16(m, 4+6)
	m = native.AppendUint16(m, unix.IFLA_ADDRESS)
	return append(append(m, mac[:6]...), 0, 0)
}
