package gateway

import (
	"net/netip"
	"strings"
	"syscall"
)

// startConnect begins to connect a TCP socket that net.Dialer is about to connect to the same
// address. The kernel treats the second connect as a question about the first (connect(2)). A
// server on this machine has answered by then, so the dialer returns at once and need not wait for
// its poller. Errors show again in the second call.
//
// The address was decided about. IPv6 addresses with zones are left to the dialer.
func startConnect(network string, a netip.AddrPort, socket syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") || a.Addr().Zone() != "" {
		return nil
	}
	var to syscall.Sockaddr = &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().Is4() {
		to = &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return socket.Control(func(fd uintptr) { _ = syscall.Connect(int(fd), to) })
}
