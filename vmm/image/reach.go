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

// lookupTime bounds the question whether a registry's name leads into this host's own network.
// Where nobody answers in time it is found out when the registry is called.
const lookupTime = 2 * time.Second

// LeadsToPrivate tells whether the registry of a source has a private address by now, though its
// name looks like anybody's. It asks the resolver. No answer, or an error, is false: publicWay asks
// again when it connects.
func LeadsToPrivate(ctx context.Context, source string) bool {
	kind, rest := Recipe{Source: source}.source()
	if kind != fromRegistry {
		return false
	}
	ref, err := name.ParseReference(rest)
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

// extraPrivate are private in effect: shared address space (RFC 6598), platforms' metadata at
// public addresses (Azure, Oracle), what is no address of anybody (RFC 6890, 2544), and IPv4
// addresses in others (RFC 6052, 3056, 4380).
var extraPrivate = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("2001::/32"),
}

// private tells whether an address is of this host or its network and not of everybody's. What is
// no address of the public Internet is private, loopback, link-local and multicast included.
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

// way calls a registry, and what it refers to for tokens and layers, at public addresses only:
// names are looked up again for each connection, so it is the connection that counts. A proxy of
// the user's own may be anywhere, and decides for itself.
type way struct {
	proxy func(*http.Request) (*url.URL, error)
	// As dial is given them. A proxy was chosen by the user, who may have it anywhere.
	proxies sync.Map // "host:port" of those in use
}

// publicWay makes one over the user's own proxies.
func publicWay() http.RoundTripper {
	w := &way{proxy: http.ProxyFromEnvironment}
	return &http.Transport{
		Proxy: w.through, DialContext: w.dial, ForceAttemptHTTP2: true, MaxIdleConns: 100, MaxIdleConnsPerHost: 50,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

// through notes which proxy is used, as dial sees it.
func (w *way) through(r *http.Request) (*url.URL, error) {
	u, err := w.proxy(r)
	if u != nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		}
		w.proxies.Store(net.JoinHostPort(u.Hostname(), port), true)
	}
	return u, err
}

// dial looks at each address after the name was resolved and before anything is sent, so a name
// that leads elsewhere the second time does not help.
func (w *way) dial(ctx context.Context, network, to string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	// Go dials a proxy through the same function as a server.
	if _, ok := w.proxies.Load(to); !ok {
		d.Control = func(_, address string, _ syscall.RawConn) error { return refusePrivate(to, address) }
	}
	return d.DialContext(ctx, network, to)
}

// refusePrivate is code Conflict: somebody has to approve it first.
func refusePrivate(asked, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && !private(at.Addr()) {
		return nil
	}
	return agentbox.Errorf(agentbox.Conflict, "%s leads to the private address %s, which nobody has approved", asked, address).
		WithHint("agentbox policy show shows what the repository asks for now; what you trust yourself: agentbox image pull REFERENCE")
}
