//go:build linux

package agent

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// setUpNetwork configures the card, which is the same in every box, so that a clone has nothing left to do. A machine without
// one does without.
func (b *booter) setUpNetwork() error {
	if _, err := net.InterfaceByName(protocol.NetworkInterface); err != nil {
		b.log.Warn("there is no network card", "err", err)
		return nil
	}
	// There is no IPv6 on the cable; left alone, the kernel would look for neighbours.
	os.WriteFile("/proc/sys/net/ipv6/conf/"+protocol.NetworkInterface+"/disable_ipv6", []byte("1"), 0)
	if err := configureCard(); err != nil {
		return err
	}
	if err := defaultRoute(); err != nil {
		return fmt.Errorf("route to %s: %w", protocol.GatewayAddr, err)
	}
	return nameServer()
}

// nameServer names the resolver. An image may bring a file of its own or a link to one that a service would make.
func nameServer() error {
	return replaceFile("/etc/resolv.conf", fmt.Sprintf("nameserver %s\n", protocol.GatewayAddr))
}

// configureCard does what `ip link set` and `ip address add` do.
func configureCard() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mask := net.CIDRMask(protocol.NetworkBits, 32)
	addr := protocol.GuestAddr.As4()
	for _, step := range []struct {
		what    string
		request uint
		set     func(*unix.Ifreq) error
	}{
		{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(protocol.NetworkMTU); return nil }},
		{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr[:]) }},
		{"mask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }},
		{"state", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		ifr, err := unix.NewIfreq(protocol.NetworkInterface)
		if err == nil {
			err = step.set(ifr)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, step.request, ifr)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", step.what, protocol.NetworkInterface, err)
		}
	}
	return nil
}

// defaultRoute does what `ip route add default via` does.
func defaultRoute() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, routeMessage(protocol.GatewayAddr.As4()), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
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
