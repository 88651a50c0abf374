package gateway

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"agentbox/policy"
)

// forwarder is a proxy of HTTP that sends everything to one server, wants a password, and notes what
// it was asked for.
type forwarder struct {
	mu    sync.Mutex
	asked []string
	to    string // host:port
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("me:pass word")) {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.RequestURI)
	f.mu.Unlock()
	away, err := net.Dial("tcp", f.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer away.Close()
	if r.Method != http.MethodConnect {
		r.Header.Del("Proxy-Authorization")
		r.Close = true
		_ = r.Write(away)
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if r.Method == http.MethodConnect {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(away, conn); _ = away.(*net.TCPConn).CloseWrite() }()
	}
	_, _ = io.Copy(conn, away)
}

// proxied makes the world's only way out a proxy to a server, which alone resolves names.
func (w *world) proxied(server *httptest.Server) *forwarder {
	f := &forwarder{to: server.Listener.Addr().String()}
	at := httptest.NewServer(f)
	w.t.Cleanup(at.Close)
	w.throughProxy("http://me:pass%20word@" + at.Listener.Addr().String())
	return f
}

func (w *world) throughProxy(address string) {
	p, err := url.Parse(address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.g.cfg.Proxy = func(*url.URL) (*url.URL, error) { return p, nil }
	w.g.cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no resolver here") }
}

func greeting() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+r.Host+r.URL.Path) })
}

func (w *world) gets(address, want string) {
	w.t.Helper()
	answer, err := w.client().Get(address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, _ := io.ReadAll(answer.Body); string(got) != want {
		w.t.Errorf("%s: %s %q, not %q", address, answer.Status, got, want)
	}
}

func TestRequestsGoThroughProxy(t *testing.T) {
	w := newWorld(t, grants("http://a.test"))
	f := w.proxied(w.serveHTTP(greeting()))
	w.gets("http://a.test/x", "hello a.test/x")
	w.gets("http://a.test/y", "hello a.test/y")
	if len(f.asked) == 0 || f.asked[0] != "GET http://a.test/x" {
		t.Errorf("the proxy was asked for %q", f.asked)
	}
}

func TestTLSGoesThroughProxy(t *testing.T) {
	for name, spec := range map[string]policy.Spec{
		"passed on": grants("a.test"), "decrypted": withToken(grants("a.test"), "a.test"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec)
			f := w.proxied(w.serveTLS(greeting()))
			w.gets("https://a.test/x", "hello a.test/x")
			if len(f.asked) != 1 || f.asked[0] != "CONNECT a.test:443" {
				t.Errorf("the proxy was asked for %q", f.asked)
			}
		})
	}
}

func TestTLSGoesThroughSOCKS(t *testing.T) {
	for name, spec := range map[string]policy.Spec{
		"passed on": grants("a.test"), "decrypted": withToken(grants("a.test"), "a.test"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spec)
			server := w.serveTLS(greeting())
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			asked := make(chan string, 1)
			go serveSOCKS(l, server.Listener.Addr().String(), asked)
			w.throughProxy("socks5://" + l.Addr().String())
			w.gets("https://a.test/x", "hello a.test/x")
			if got := <-asked; got != "a.test" {
				t.Errorf("the proxy was asked for %q", got)
			}
		})
	}
}

// serveSOCKS is a SOCKS5 proxy without a password that serves one connection, to one server.
func serveSOCKS(l net.Listener, to string, asked chan<- string) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	r := bufio.NewReader(c)
	greeting := make([]byte, 2)
	_, _ = io.ReadFull(r, greeting)
	_, _ = io.CopyN(io.Discard, r, int64(greeting[1]))
	_, _ = c.Write([]byte{5, 0})
	head := make([]byte, 5) // version, command, 0, kind of address, length of the name
	_, _ = io.ReadFull(r, head)
	rest := make([]byte, int(head[4])+2)
	_, _ = io.ReadFull(r, rest)
	asked <- string(rest[:head[4]])
	away, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer away.Close()
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go func() { _, _ = io.Copy(away, r) }()
	_, _ = io.Copy(c, away)
}

// refused asserts that an address cannot be reached, because of what it leads to, and that no proxy
// is asked for it.
func (w *world) refused(address string, f *forwarder) {
	w.t.Helper()
	if answer, err := w.client().Get(address); err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			w.t.Errorf("%s was reached", address)
		}
	}
	w.denied("address")
	if len(f.asked) > 0 {
		w.t.Errorf("the proxy was asked for %q", f.asked)
	}
}

// A proxy connects to whatever it resolves: a name that cannot be looked at here has to be one that
// somebody allowed by name, and a private address stays denied.
func TestProxyReachesNoPrivateNameByWildcard(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		w := newWorld(t, grants("*"))
		w.refused(scheme+"://intranet.test/", w.proxied(w.serveHTTP(greeting())))
	}
}

func TestProxyDoesNotLiftAddresses(t *testing.T) {
	spec := policy.Spec{Layers: []policy.Layer{{Source: policy.User, Allow: []policy.Rule{rule("a.test"), rule("http://a.test")}}}}
	for _, scheme := range []string{"http", "https"} {
		w := newWorld(t, spec)
		f := w.proxied(w.serveHTTP(greeting()))
		w.g.cfg.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
		}
		w.refused(scheme+"://a.test/", f)
	}
}

// What names a proxy inside of the gateway is no name that a box could ask for.
func TestBoxCannotNameProxy(t *testing.T) {
	w := newWorld(t, grants("*"))
	w.proxied(w.serveHTTP(greeting()))
	alias := w.g.up.proxies.alias(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	if w.g.up.proxies.named(alias.Hostname()) == nil {
		t.Fatal("the alias stands for nothing")
	}
	if name, _, err := policy.CanonicalHost(alias.Hostname()); err == nil {
		t.Errorf("a box may ask for %s", name)
	}
}

func TestProxyRefusesAreErrors(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(at.Close)
	w.throughProxy(at.URL)
	if _, err := w.client().Get("https://a.test/"); err == nil {
		t.Error("a request went through a proxy that refuses it")
	}
	w.entry("of the failure", func(e policy.Entry) bool { return strings.Contains(e.Reason, "refuses a.test:443: 403") })
}
