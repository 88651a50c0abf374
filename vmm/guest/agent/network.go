//go:build linux

package agent

import (
	"fmt"
	"net"
	"os"

	"agentbox/vmm/guest/netconfig"
	"agentbox/vmm/guest/protocol"
)

// setUpNetwork configures the network card, which is the same in every box, so that a clone has
// nothing left to do. A machine may have none.
func (b *booter) setUpNetwork() error {
	if _, err := net.InterfaceByName(protocol.NetworkInterface); err != nil {
		b.log.Warn("there is no network card", "err", err)
		return nil
	}
	// The link has no IPv6; left alone, the kernel would look for neighbours.
	os.WriteFile("/proc/sys/net/ipv6/conf/"+protocol.NetworkInterface+"/disable_ipv6", []byte("1"), 0)
	if err := netconfig.Up(protocol.NetworkInterface, protocol.NetworkMTU); err != nil {
		return err
	}
	return nameServer()
}

// gvisorNetwork sets the name server. gVisor has configured the rest before the start.
func (b *booter) gvisorNetwork() error {
	if _, err := net.InterfaceByName(protocol.NetworkInterface); err != nil {
		b.log.Warn("there is no network card", "err", err)
		return nil
	}
	return nameServer()
}

// nameServer writes resolv.conf, in place of the image's, which may be a link to a file that some
// service would make. The gateway answers questions itself (vmm/netstack).
func nameServer() error {
	return replaceFile("/etc/resolv.conf", fmt.Sprintf("nameserver %s\n", protocol.GatewayAddr))
}
