package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/net/proxy"

	"agentbox/policy"
)

// Proxy returns the proxy for a URL of scheme http or https, nil for none. Its URL has the scheme
// http, https or socks5, and the credentials.
type Proxy func(*url.URL) (*url.URL, error)

// ProxyFromEnvironment follows HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in capitals or not, as curl and
// Go do.
func ProxyFromEnvironment() Proxy { return httpproxy.FromEnvironment().ProxyFunc() }

// proxies are those in use. Their dialling is apart from that of destinations: a box cannot reach a
// proxy by naming it.
type proxies struct {
	mu    sync.Mutex
	known []*url.URL
}

// proxyMark begins the name under which a transport dials a proxy. No destination has such a name
// (policy.CanonicalHost).
const proxyMark = "~proxy-"

// alias returns the URL by which a transport may name a proxy.
func (ps *proxies) alias(p *url.URL) *url.URL {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	i := slices.IndexFunc(ps.known, func(k *url.URL) bool { return k.String() == p.String() })
	if i < 0 {
		i, ps.known = len(ps.known), append(ps.known, p)
	}
	out := &url.URL{Scheme: p.Scheme, User: p.User, Host: fmt.Sprint(proxyMark, i, ":1")}
	if out.Scheme == "https" {
		out.Scheme = "http" // dialProxy speaks the TLS, whose name is the proxy's own
	}
	return out
}

// named returns the proxy that an alias stands for, nil for another host.
func (ps *proxies) named(host string) *url.URL {
	digits, ok := strings.CutPrefix(host, proxyMark)
	i, err := strconv.Atoi(digits)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ok || err != nil || i >= len(ps.known) {
		return nil
	}
	return ps.known[i]
}

// proxyFor returns the proxy of a flow; nil for none. This host is never reached through one.
func (u *upstream) proxyFor(f policy.Flow, scheme string) (*url.URL, error) {
	if u.g.cfg.Proxy == nil || f.Name == policy.HostName || f.Name == policy.ToolsName {
		return nil, nil
	}
	return u.g.cfg.Proxy(&url.URL{Scheme: scheme, Host: net.JoinHostPort(f.Host(), strconv.Itoa(int(f.Port)))})
}

// chooseProxy is http.Transport.Proxy, and decides about a destination without one as dial does.
func (u *upstream) chooseProxy(r *http.Request) (*url.URL, error) {
	if u.g.cfg.Proxy == nil {
		return nil, nil
	}
	f, err := flowOf(r.URL)
	if err != nil {
		return nil, err
	}
	p, err := u.proxyFor(f, r.URL.Scheme)
	if err != nil || p == nil {
		return nil, err
	}
	if err := u.decideBehind(r.Context(), f); err != nil {
		return nil, err
	}
	return u.proxies.alias(p), nil
}

func flowOf(to *url.URL) (policy.Flow, error) {
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[to.Scheme]
	}
	return flowTo(to.Hostname(), port)
}

func flowTo(host, port string) (f policy.Flow, err error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return f, err
	}
	f = policy.Flow{Proto: policy.TCP, Port: uint16(n)}
	f.Name, f.Addr, err = policy.CanonicalHost(host)
	return f, err
}

// proxiedLookup is how long a name may take to resolve that a proxy will resolve in any case.
const proxiedLookup = 2 * time.Second

// decideBehind decides about the addresses of a destination that a proxy connects to. One allowed
// address is enough, as without a proxy. A name that only the proxy can resolve needs a rule that
// names it: behind a rule for any host, it could be one of the private network.
func (u *upstream) decideBehind(ctx context.Context, f policy.Flow) error {
	ctx, cancel := context.WithTimeout(ctx, proxiedLookup)
	defer cancel()
	rules := u.g.rules()
	addrs, err := rules.addresses(ctx, f)
	if err != nil {
		v := rules.connect(f)
		if r, err := policy.ParseRule(v.Rule); !v.Allow || err != nil || strings.Trim(r.Host, "*") == "" {
			v.Kind, v.Reason = "address", "only the proxy can resolve this name, which a rule therefore has to name"
			return u.g.deny(f, v)
		}
		return nil
	}
	var errs []error
	for _, a := range addrs {
		err := u.decide(f, a)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (u *upstream) dialBehind(ctx context.Context, p *url.URL, f policy.Flow) (net.Conn, error) {
	if err := u.decideBehind(ctx, f); err != nil {
		return nil, err
	}
	to := net.JoinHostPort(f.Host(), strconv.Itoa(int(f.Port)))
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := dialProxy(ctx, p)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	through := askConnect
	if p.Scheme == "socks5" || p.Scheme == "socks5h" {
		through = askSOCKS
	}
	out, err := through(ctx, c, p, to)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("proxy %s: %w", p.Host, err)
	}
	a := netip.Addr{}
	if f.Name == "" {
		a = f.Addr
	}
	return u.register(out, f, a)
}

// defaultPorts are those of proxies that name none.
var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// dialProxy connects to a proxy itself. Where it is, is the user's choice.
func dialProxy(ctx context.Context, p *url.URL) (net.Conn, error) {
	port := p.Port()
	if port == "" {
		port = defaultPorts[p.Scheme]
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	c, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", p.Host, err)
	}
	if p.Scheme != "https" {
		return c, nil
	}
	secure := tls.Client(c, &tls.Config{ServerName: p.Hostname(), MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("proxy %s: %w", p.Host, err)
	}
	return secure, nil
}

// maxAnswer bounds what a proxy may answer to CONNECT, in bytes.
const maxAnswer = 64 << 10

// askConnect has an HTTP proxy connect to a place (RFC 9110, 9.3.6).
func askConnect(_ context.Context, c net.Conn, p *url.URL, to string) (net.Conn, error) {
	head := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if p.User != nil {
		password, _ := p.User.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return nil, err
	}
	r := bufio.NewReader(io.LimitReader(c, maxAnswer))
	answer, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it refuses %s: %s", to, answer.Status)
	}
	first, _ := r.Peek(r.Buffered())
	return &replay{Conn: c, first: first}, nil
}

// askSOCKS has a SOCKS5 proxy connect to a place (RFC 1928). The name is the proxy's to resolve.
func askSOCKS(ctx context.Context, c net.Conn, p *url.URL, to string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.User != nil {
		password, _ := p.User.Password()
		auth = &proxy.Auth{User: p.User.Username(), Password: password}
	}
	d, err := proxy.SOCKS5("tcp", p.Host, auth, dialled{c})
	if err == nil {
		_, err = d.(proxy.ContextDialer).DialContext(ctx, "tcp", to)
	}
	return c, err // c itself, because the library's wrapper cannot be half-closed
}

// dialled is a proxy.Dialer that has connected already.
type dialled struct{ c net.Conn }

func (d dialled) Dial(string, string) (net.Conn, error) { return d.c, nil }
