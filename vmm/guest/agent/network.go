//go:build linux

package agent

import (
	"fmt"
	"net"
	"os"

	"agentbox/vmm/guest/netconfig"
	"agentbox/vmm/guest/protocol"
)

// setUpNetwork configures the card, which is the same in every box, so that a clone has nothing
// left to do. A machine without one does without.
func (b *booter) setUpNetwork() error {
	if _, err := net.InterfaceByName(protocol.NetworkInterface); err != nil {
		b.log.Warn("there is no network card", "err", err)
		return nil
	}
	// There is no IPv6 on the cable; left alone, the kernel would look for neighbours.
	os.WriteFile("/proc/sys/net/ipv6/conf/"+protocol.NetworkInterface+"/disable_ipv6", []byte("1"), 0)
	if err := netconfig.Up(protocol.NetworkInterface, protocol.NetworkMTU); err != nil {
		return err
	}
	return nameServer()
}

// gvisorNetwork names the resolver: gVisor has taken over the rest of a card's configuration when
// the guest begins.
func (b *booter) gvisorNetwork() error {
	if _, err := net.InterfaceByName(protocol.NetworkInterface); err != nil {
		b.log.Warn("there is no network card", "err", err)
		return nil
	}
	return nameServer()
}

// nameServer names the resolver. An image may bring a file of its own or a link to one that a
// service would make. The gateway answers questions itself (vmm/netstack).
func nameServer() error {
	return replaceFile("/etc/resolv.conf", fmt.Sprintf("nameserver %s\n", protocol.GatewayAddr))
}
