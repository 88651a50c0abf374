package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"agentbox/policy"
)

// Deadlines of what we dial.
const (
	resolveTimeout = 10 * time.Second
	dialTimeout    = 10 * time.Second // per address
	tlsTimeout     = 15 * time.Second
	idleUpstream   = 90 * time.Second
)

// upstream dials places for the box, and keeps connections to web servers for its next requests.
type upstream struct {
	g         *Gateway
	transport *http.Transport
	ports     map[uint16]uint16 // of a test's servers, which cannot have the ports of the web
	memory    func() net.Conn   // to a test's server that has no address; nil for the network
}

func newUpstream(g *Gateway) *upstream {
	u := &upstream{g: g}
	u.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, err
			}
			f := policy.Flow{Proto: policy.TCP, Port: uint16(n)}
			if f.Name, f.Addr, err = policy.CanonicalHost(host); err != nil {
				return nil, err
			}
			return u.dial(ctx, "tcp", f)
		},
		TLSClientConfig:        &tls.Config{RootCAs: g.cfg.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // bytes pass as they are
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        idleUpstream,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         64 << 10,
	}
	return u
}

func (u *upstream) closeIdle() { u.transport.CloseIdleConnections() }
func (u *upstream) close()     { u.transport.CloseIdleConnections() }

// dial connects to where a flow leads. Each address is decided about as it is dialled, by the dialer itself, so that
// nothing between the question and the connection can lead elsewhere.
func (u *upstream) dial(ctx context.Context, network string, f policy.Flow) (net.Conn, error) {
	addrs, err := u.addresses(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", f.Name, err)
	}
	dialer := net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second,
		ControlContext: func(_ context.Context, network, address string, socket syscall.RawConn) error {
			if err := u.guard(f, address); err != nil {
				return err
			}
			return connectAhead(network, address, socket)
		},
	}
	if u.memory != nil {
		return u.memory(), nil
	}
	port := f.Port
	if p, ok := u.ports[port]; ok {
		port = p
	}
	var errs []error
	for _, a := range addrs {
		c, err := dialer.DialContext(ctx, network, netip.AddrPortFrom(a, port).String())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// guard decides about an address that is about to be dialled.
func (u *upstream) guard(f policy.Flow, address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	f.Addr = a.Addr()
	if v := u.g.decide(f); !v.Allow {
		return u.g.deny(f, v, "address")
	}
	return nil
}

// addresses are a flow's, most of a name's being ignored: a name with thousands is no reason to try them all.
func (u *upstream) addresses(ctx context.Context, f policy.Flow) ([]netip.Addr, error) {
	switch f.Name {
	case "":
		return []netip.Addr{f.Addr}, nil
	case policy.HostName:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	resolve := u.g.cfg.Resolve
	if resolve == nil {
		resolve = resolveHost
	}
	addrs, err := resolve(ctx, f.Name)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("the name has no address")
	}
	const most = 8
	return addrs[:min(len(addrs), most)], nil
}

// resolveHost asks the host's resolver for exactly this name: the dot keeps its search list out.
func resolveHost(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// dialledAddr is the address behind a connection, for the log.
func dialledAddr(c net.Conn) netip.Addr {
	if c == nil || c.RemoteAddr() == nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}
