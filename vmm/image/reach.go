package image

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"agentbox/agentbox"
)

// lookupTime is how long LeadsToPrivate waits for the resolver. After that, dial finds out.
const lookupTime = 2 * time.Second

// FromRegistry tells whether the image of a source is pulled from a registry.
func FromRegistry(source string) bool {
	kind, _ := Recipe{Source: source}.source()
	return kind == fromRegistry
}

// LeadsToPrivate asks the resolver whether the registry of a source has a private address. It
// returns false if there is no answer, since publicTransport checks again when it connects.
func LeadsToPrivate(ctx context.Context, source string) bool {
	if !FromRegistry(source) {
		return false
	}
	ref, err := name.ParseReference(source)
	if err != nil {
		return false
	}
	host := ref.Context().RegistryStr()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range found {
		if err == nil && private(a) {
			return true
		}
	}
	return false
}

// extraPrivate are further addresses that are not public: shared address space (RFC 6598), metadata
// of cloud platforms (Azure, Oracle), reserved addresses (RFC 6890, 2544), and IPv6 addresses that
// contain IPv4 addresses (RFC 6052, 3056, 4380).
var extraPrivate = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("2001::/32"),
}

// private tells whether an address is not one of the public Internet. Loopback, link-local and
// multicast addresses are private, too.
func private(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return true
	}
	for _, p := range extraPrivate {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// publicDialer connects to registries, and the servers that they refer to for tokens and layers, at
// public addresses only. It checks each connection, since names are looked up again for each. The
// user's proxies may be anywhere.
type publicDialer struct {
	proxy   func(*http.Request) (*url.URL, error)
	proxies sync.Map // "host:port" of those in use, as dial gets them
}

func publicTransport() http.RoundTripper {
	d := &publicDialer{proxy: http.ProxyFromEnvironment}
	return &http.Transport{
		Proxy: d.chooseProxy, DialContext: d.dial, ForceAttemptHTTP2: true, MaxIdleConns: 100, MaxIdleConnsPerHost: 50,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

func (p *publicDialer) chooseProxy(r *http.Request) (*url.URL, error) {
	u, err := p.proxy(r)
	if u != nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		}
		p.proxies.Store(net.JoinHostPort(u.Hostname(), port), true)
	}
	return u, err
}

// dial checks each address after the name was resolved and before anything is sent, so that it does
// not matter what the name resolves to later.
func (p *publicDialer) dial(ctx context.Context, network, to string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if _, proxy := p.proxies.Load(to); !proxy {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return refusePrivate(to, address) }
	}
	return dialer.DialContext(ctx, network, to)
}

// refusePrivate is Conflict for a private address, which somebody has to approve first.
func refusePrivate(asked, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && !private(at.Addr()) {
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "%s leads to the private address %s, which nobody has approved", asked, address).
		WithHint("agentbox policy show shows what the repository asks for now; what you trust yourself: agentbox image pull REFERENCE")
}
