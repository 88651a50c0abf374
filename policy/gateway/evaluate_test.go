package gateway

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"agentbox/policy"
)

// What `policy check` says is what the gateway does: each case goes through both.
func TestCheckMatchesGateway(t *testing.T) {
	loopback, other, metadata := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.9.8.7"), netip.MustParseAddr("169.254.169.254")
	own := netip.MustParseAddr("198.51.100.7")
	addrs := map[string][]netip.Addr{
		"a.test": {loopback}, "b.test": {loopback}, "private.test": {other}, "metadata.test": {metadata}, "own.test": {own},
		"both.test": {metadata, other, loopback}, "wire.test": {netip.MustParseAddr("168.63.129.16")}, "denied.test": {netip.MustParseAddr("127.0.0.3")},
		"many.test": append(eightAddresses(metadata), loopback), "mapped.test": {netip.MustParseAddr("::ffff:10.9.8.7")}, "x.wild.test": {loopback}, "wild.test": {loopback},
	}
	private := "a.test|a.test:22|GET,HEAD b.test/v1/**|both.test|metadata.test|wire.test|denied.test|many.test|*.wild.test|127.0.0.1|metadata.google.internal|udp://a.test:53"
	spec := grants(strings.Split(private, "|")...)
	allow := policy.Layer{Source: policy.User, Deny: []policy.Rule{rule("127.0.0.3"), rule("DELETE https://a.test"), rule("https://a.test/secret/**"), rule("[127.0.0.1]:8080"), rule("POST u.test")}}
	for _, r := range []string{"private.test", "own.test", "mapped.test", "a.test:8080", "udp://private.test:53", "udp://u.test:443", "c.test:443"} {
		allow.Allow = append(allow.Allow, rule(r))
	}
	spec.Layers = append(spec.Layers, allow)
	p := policy.New(spec, func(a netip.Addr) bool { return a == own })
	for _, c := range []struct {
		target, method string
		allow          bool
	}{
		{"https://a.test/", "", true},
		{"https://A.TEST./", "", true},
		{"http://a.test/", "", true},
		{"https://a.test/", "DELETE", false},
		{"https://a.test/", "CONNECT", false},
		{"https://a.test/", "BREW", true},
		{"https://a.test/secret/x", "", false},
		{"https://a.test/x/../secret/x", "", false},
		{"http://a.test:443/", "", false},
		{"https://b.test/v1/x", "HEAD", true},
		{"https://b.test/v1/x", "POST", false},
		{"https://b.test/v2", "", false},
		{"https://unknown.test/", "", false},
		{"https://private.test/", "", false},
		{"https://mapped.test/", "", false},
		{"https://own.test/", "", false},
		{"https://metadata.test/", "", false},
		{"https://wire.test/", "", false},
		{"http://metadata.google.internal/", "", false},
		{"https://both.test/", "", true},
		{"https://many.test/", "", false},
		{"https://denied.test/", "", false},
		{"http://x.wild.test/", "", true},
		{"http://wild.test/", "", false},
		{"http://127.0.0.1/", "", true},
		{"http://127.0.0.2/", "", false},
		{"http://a.test:8080/", "", false},
		{"a.test:22", "", true},
		{"a.test:23", "", false},
		{"udp://a.test:53", "", true},
		{"udp://private.test:53", "", false},
		{"udp://a.test:443", "", false},
		{"udp://u.test:443", "", false},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			w := newWorld(t, policy.Spec{})
			w.addrs = addrs
			w.g.SetPolicy(p)
			w.serveHTTP(echo)
			w.serveTLS(echo)
			greeter := w.serveRaw(22, func(c net.Conn) { _, _ = io.WriteString(c, "hi") })
			defer greeter.Close()
			f, err := policy.ParseFlow(c.target, c.method)
			if err != nil {
				t.Fatal(err)
			}
			said := Evaluator{p, w.g.cfg.Resolve}.Check(t.Context(), f)
			did := w.canConnect(f)
			if said.Allow != c.allow || did != c.allow {
				t.Errorf("check says %+v, the gateway does %v, want %v", said, did, c.allow)
			}
		})
	}
}

// canConnect tells whether a box gets through: a question, a connection, what is said first.
func (w *world) canConnect(f policy.Flow) bool {
	w.t.Helper()
	if f.Name != "" && w.g.Lookup(f.Name, typeA) != nil {
		return false
	}
	d := policy.Flow{Proto: f.Proto, Name: f.Name, Addr: f.Addr, Port: f.Port}
	if f.Name != "" {
		d = dest(f.Name, f.Port)
	}
	if f.Proto == policy.UDP {
		d.Proto = policy.UDP
		if w.g.Accept(d) != nil {
			return false
		}
		box, host := net.Pipe()
		box.Close()
		return w.g.Packets(w.t.Context(), d, host) == nil
	}
	d.Proto = policy.TCP
	if f.Proto == policy.TCP {
		c, err := w.dial(d)
		if err != nil {
			return false
		}
		b, _ := io.ReadAll(c)
		return len(b) > 0
	}
	if f.TLS {
		return strings.HasPrefix(w.tlsRaw(f.Name, head(f)), "HTTP/1.1 200") || w.passesTLS(f)
	}
	return strings.HasPrefix(w.raw(d, head(f)), "HTTP/1.1 200")
}

// passesTLS tells whether TLS passes unread, where every request is the server's to answer.
func (w *world) passesTLS(f policy.Flow) bool {
	c, err := w.dial(dest(f.Name, f.Port))
	if err != nil {
		return false
	}
	conn := tls.Client(c, &tls.Config{RootCAs: roots(), ServerName: f.Name})
	_, _ = io.WriteString(conn, head(f))
	b, _ := io.ReadAll(conn)
	return strings.HasPrefix(string(b), "HTTP/1.1 200")
}

func head(f policy.Flow) string {
	host := f.Name
	if host == "" {
		host = f.Addr.String()
	}
	if !f.TLS && f.Port != 80 {
		host += ":8080"
	}
	return f.Method + " " + f.Path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
}

func eightAddresses(a netip.Addr) []netip.Addr {
	list := make([]netip.Addr, 8)
	for i := range list {
		list[i] = a
	}
	return list
}
