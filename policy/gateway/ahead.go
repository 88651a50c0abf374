package gateway

import (
	"net/netip"
	"strings"
	"syscall"
)

// connectAhead begins to connect a TCP socket that net.Dialer is about to connect to the same
// address. The kernel takes the second call as a question how far the first one is (connect(2)): a
// server on this machine has answered by then, and the dialer returns at once, where it would have
// waited for its poller to wake another thread. What goes wrong here goes wrong there again.
//
// It was decided about the address. IPv6 addresses with zones are left to the dialer.
func connectAhead(network string, a netip.AddrPort, socket syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") || a.Addr().Zone() != "" {
		return nil
	}
	var to syscall.Sockaddr = &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if a.Addr().Is4() {
		to = &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return socket.Control(func(fd uintptr) { _ = syscall.Connect(int(fd), to) })
}
