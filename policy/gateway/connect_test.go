package gateway

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// A server of this machine has answered when the dialer begins to connect. It may not have, on a
// busy one; so it is tried again.
func TestConnectAhead(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		defer l.Close()
		ahead := false
		d := net.Dialer{Timeout: time.Minute, Control: func(network, address string, socket syscall.RawConn) error {
			if err := startConnect(network, netip.MustParseAddrPort(address), socket); err != nil {
				return err
			}
			return socket.Control(func(fd uintptr) {
				_, err := syscall.Getpeername(int(fd))
				ahead = ahead || err == nil
			})
		}}
		for range 100 {
			c, err := d.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if got := c.RemoteAddr().String(); got != l.Addr().String() {
				t.Errorf("connected to %s instead of %s", got, l.Addr())
			}
			c.Close()
			if ahead {
				break
			}
		}
		if !ahead {
			t.Errorf("no connection to %s was there when the dialer asked for it", l.Addr())
		}
	}
}

// A connection that is refused is refused, though it was begun ahead.
func TestConnectAheadFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	d := net.Dialer{Timeout: time.Minute, Control: func(network, address string, socket syscall.RawConn) error {
		return startConnect(network, netip.MustParseAddrPort(address), socket)
	}}
	if c, err := d.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port that nobody listens on: %v, %v", c, err)
	}
}
