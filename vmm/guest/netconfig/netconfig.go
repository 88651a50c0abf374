//go:build linux

// Package netconfig configures the network card of a box in the Linux network namespace it is in:
// the guest's own, or the one that gVisor takes the configuration from. It knows the one network
// that every box has (vmm/guest/protocol), and changes nothing else.
//
// The guest agent calls Up while it boots a virtual machine, the launcher of a gVisor machine
// before it starts runsc; Ask is for the launcher's own requests, too. It speaks to the kernel by
// ioctls and rtnetlink itself, for an image need have no program for it. It is linked into both
// small programs and imports no library but golang.org/x/sys.
package netconfig

import (
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// Up gives the named interface the guest's address and the route to everywhere, and brings it up.
// mtu is in bytes of a packet. It may be repeated. The caller needs CAP_NET_ADMIN over the
// namespace.
func Up(name string, mtu int) error {
	if err := card(name, mtu); err != nil {
		return err
	}
	if err := defaultRoute(); err != nil {
		return fmt.Errorf("route to %s: %w", protocol.GatewayAddr, err)
	}
	return nil
}

// card does what `ip link set` and `ip address add` do. Old ioctls do it all, one step each: the
// error says which step failed.
func card(name string, mtu int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mask := net.CIDRMask(protocol.NetworkBits, 32)
	addr := protocol.GuestAddr.As4()
	// The mask comes after the address, which sets one of its own.
	for _, step := range []struct {
		what    string
		request uint
		set     func(*unix.Ifreq) error
	}{
		{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(mtu)); return nil }},
		{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr[:]) }},
		{"mask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }},
		{"state", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		ifr, err := unix.NewIfreq(name)
		if err == nil {
			err = step.set(ifr)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, step.request, ifr)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", step.what, name, err)
		}
	}
	return nil
}

// defaultRoute does what `ip route add default via` does.
func defaultRoute() error {
	return Ask(routeMessage(protocol.GatewayAddr.As4()))
}

// Ask sends the kernel a request of rtnetlink(7) and waits for its answer. request is a whole
// message with the flag NLM_F_ACK, since the answer that is waited for is the acknowledgement. An
// error of the kernel's is a unix.Errno.
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

// routeMessage asks the kernel for a route to everywhere by way of a gateway (rtnetlink(7)).
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
