package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"agentbox/policy"
)

// Deadlines of what we dial. There is none for an answer: agents wait for models for many minutes.
const (
	resolveTimeout = 10 * time.Second
	dialTimeout    = 10 * time.Second // per address
	tlsTimeout     = 15 * time.Second
	idleUpstream   = 90 * time.Second
)

// upstream dials places for the box, and keeps connections to web servers for its next requests.
// Nothing else in the gateway opens a connection.
type upstream struct {
	g         *Gateway
	transport *http.Transport
	ports     map[uint16]uint16 // of a test's servers, which cannot have the ports of the web
	memory    func() net.Conn   // to a test's server that has no address; nil for the network
}

// newUpstream makes the transport of requests. Its dialer is ours, so each connection is decided
// about; servers are verified against the host's roots, or Config.Roots.
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
			// The transport asks for what rewrite put into the URL: the connection's name and port.
			f := policy.Flow{Proto: policy.TCP, Port: uint16(n)}
			if f.Name, f.Addr, err = policy.CanonicalHost(host); err != nil {
				return nil, err
			}
			return u.dial(ctx, "tcp", f)
		},
		// No client certificates: a box's requests are not this host's.
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

// closeIdle ends the connections that no request uses; the others end with their requests.
func (u *upstream) closeIdle() { u.transport.CloseIdleConnections() }

// dial connects to where a flow leads. Each address is decided about as it is dialled, by the
// dialer itself, so that nothing between the question and the connection can lead elsewhere.
// network is tcp or udp. The addresses are tried one after the other; the error joins what each
// said, with a *Refusal where one was denied.
func (u *upstream) dial(ctx context.Context, network string, f policy.Flow) (net.Conn, error) {
	addrs, err := u.g.rules().addresses(ctx, f)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second,
		ControlContext: func(_ context.Context, network, address string, socket syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if err := u.decide(f, a.Addr()); err != nil {
				return err
			}
			return startConnect(network, a, socket)
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
			c, err = u.register(c, f, a)
		}
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

// outgoing is a connection outside that a change of policy finds.
type outgoing struct {
	net.Conn
	done func() // once
}

func (c *outgoing) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// CloseWrite passes a half-close on.
func (c *outgoing) CloseWrite() error { return closeWrite(c.Conn) }

// register has a change of policy end a connection to an address that it denies, and decides once
// more: the policy may have changed since the address was dialled.
func (u *upstream) register(c net.Conn, f policy.Flow, a netip.Addr) (net.Conn, error) {
	f.Addr = a.Unmap()
	done, err := u.g.begin(u.g.outs, &activeFlow{flow: f, end: func() { _ = c.Close() }})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	out := &outgoing{c, sync.OnceFunc(done)}
	if err := u.decide(f, a); err != nil {
		_ = out.Close()
		return nil, err
	}
	return out, nil
}

// decide answers for one address, and records a denial.
func (u *upstream) decide(f policy.Flow, a netip.Addr) error {
	f.Addr = a.Unmap()
	if v := u.g.rules().address(f, a); !v.Allow {
		return u.g.deny(f, v)
	}
	return nil
}

// dialledAddr is the address behind a connection, for the log.
func dialledAddr(c net.Conn) netip.Addr {
	if c.RemoteAddr() == nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // none where it is of another kind
	return a.Addr().Unmap()
}
