package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"agentbox/policy"
)

// Deadlines of outgoing connections. Responses have none: models may take many minutes.
const (
	resolveTimeout = 10 * time.Second
	dialTimeout    = 10 * time.Second // per address
	tlsTimeout     = 15 * time.Second
	idleUpstream   = 90 * time.Second
)

// upstream dials destinations for the box, and keeps connections to web servers for later requests.
// Nothing else in the gateway opens connections.
type upstream struct {
	g         *Gateway
	transport atomic.Pointer[http.Transport]
	proxies   proxies
	ports     map[uint16]uint16 // for tests, whose servers cannot have the usual ports
	memory    func() net.Conn   // for tests without a network; else nil
}

func newUpstream(g *Gateway) *upstream {
	u := &upstream{g: g}
	u.transport.Store(u.newTransport())
	return u
}

// newTransport makes a transport of requests. Its dialer is ours, so each connection is decided
// about. Servers are verified with the host's roots, or Config.Roots.
func (u *upstream) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			if p := u.proxies.named(host); p != nil {
				return dialProxy(ctx, p)
			}
			f, err := flowTo(host, port)
			if err != nil {
				return nil, err
			}
			return u.dial(ctx, "tcp", f)
		},
		Proxy: u.chooseProxy,
		// No client certificates, since a box's requests are not this host's.
		TLSClientConfig:        &tls.Config{RootCAs: u.g.cfg.Roots, MinVersion: tls.VersionTLS12},
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
}

// RoundTrip sends a request of the box over a connection of the present transport.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.transport.Load().RoundTrip(r)
}

// renew makes all later requests dial anew. It closes idle connections. The others end with their
// requests, or become idle and end after idleUpstream.
func (u *upstream) renew() { u.transport.Swap(u.newTransport()).CloseIdleConnections() }

// dial connects to the destination of a flow. The dialer decides about each address just before it
// connects, so that nothing in between can lead elsewhere. network is tcp or udp. It tries the
// addresses one after the other and joins their errors, with a *Refusal for a denied one. A proxy
// carries only what is spoken to port 443, as most refuse all else.
func (u *upstream) dial(ctx context.Context, network string, f policy.Flow) (net.Conn, error) {
	if f.Name == policy.ToolsName {
		return u.dialTools(ctx, network, f)
	}
	if network == "tcp" && f.Port == 443 {
		p, err := u.proxyFor(f, "https")
		if err != nil {
			return nil, err
		}
		if p != nil {
			return u.dialBehind(ctx, p, f)
		}
	}
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

// dialTools connects to the tool servers. They have no address to decide about, only a name; a change
// of policy that denies it ends the connection.
func (u *upstream) dialTools(ctx context.Context, network string, f policy.Flow) (net.Conn, error) {
	if u.g.cfg.Tools == nil || network != "tcp" || f.Port != 80 {
		return nil, fmt.Errorf("%s has its tool servers at port 80, where there are any", f.Name)
	}
	c, err := u.g.cfg.Tools(ctx)
	if err != nil {
		return nil, err
	}
	done, err := u.g.begin(u.g.outs, &activeFlow{flow: f, end: func() { _ = c.Close() }})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	out := &outgoing{c, sync.OnceFunc(done)}
	if v := u.g.rules().connect(f); !v.Allow { // it may have changed meanwhile
		_ = out.Close()
		return nil, u.g.deny(f, v)
	}
	return out, nil
}

// outgoing is an outgoing connection that changes of policy can find.
type outgoing struct {
	net.Conn
	done func() // once
}

func (o *outgoing) Close() error {
	defer o.done()
	return o.Conn.Close()
}

// CloseWrite passes a half-close on.
func (o *outgoing) CloseWrite() error { return closeWrite(o.Conn) }

// register lets a change of policy end a connection to an address that it denies, and decides
// again, because the policy may have changed since the address was dialled.
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

// decide decides about one address, and records a denial.
func (u *upstream) decide(f policy.Flow, a netip.Addr) error {
	f.Addr = a.Unmap()
	if v := u.g.rules().address(f, a); !v.Allow {
		return u.g.deny(f, v)
	}
	return nil
}

func dialledAddr(c net.Conn) netip.Addr {
	if c.RemoteAddr() == nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // the zero address for another kind
	return a.Addr().Unmap()
}
