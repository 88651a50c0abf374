//go:build linux

package launch

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentbox/vmm/container/plan"
	"agentbox/vmm/guest/netconfig"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/nsinit"
)

// openTun opens what network cards are made with, as the caller, since root of the namespace may not.
func (l *launcher) openTun() (err error) {
	l.cable, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return os.NewSyscallError("/dev/net/tun", err)
}

// makeCard makes the container's only network card, a TAP, and brings loopback up. The supervisor
// gets the other end: what the box sends goes there and nowhere else. Each frame has a virtio-net
// header, so that a long TCP segment is one frame.
func (l *launcher) makeCard() error {
	nsinit.DisableIPv6("lo", "0")      // whatever the host's is
	nsinit.DisableIPv6("default", "1") // of interfaces made from now on: the cable carries none
	if err := netconfig.LinkUp("lo"); err != nil {
		return err
	}
	request, err := unix.NewIfreq(protocol.NetworkInterface)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(l.cable, unix.TUNSETIFF, request); err != nil {
		return os.NewSyscallError("TUNSETIFF", err)
	}
	// What the other end may be sent: segments whose checksum is for it to complete.
	if err := unix.IoctlSetInt(l.cable, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4); err != nil {
		return os.NewSyscallError("TUNSETOFFLOAD", err)
	}
	if err := setAddress(protocol.NetworkInterface, protocol.GuestMAC); err != nil {
		return err
	}
	return netconfig.Up(protocol.NetworkInterface, plan.MTU)
}

func setAddress(name, mac string) error {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	if err := netconfig.Ask(netconfig.AddressMessage(link.Index, hw)); err != nil {
		return fmt.Errorf("address of %s: %w", name, err)
	}
	return nil
}
