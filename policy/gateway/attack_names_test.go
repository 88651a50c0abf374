package gateway

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentbox/policy"
)

// Names that are not the allowed one, in every disguise, are not answered; nothing is ever asked of
// a resolver.
func TestAttackNames(t *testing.T) {
	w := newWorld(t, grants("allowed.example", "*.wild.example"))
	for _, name := range []string{
		"evil.example", "evilallowed.example", "allowed.example.evil", "allowed.example.", ".allowed.example", "ALLOWED.example", "allowed.example\x00.evil",
		"allowed.example\r\n", "allowed%2eexample", "allowed。example", "аllowed.example", "x.allowed.example", "wild.example", "evilwild.example", "",
		"127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "::1", "localhost", strings.Repeat("a", 64) + ".wild.example", "a..wild.example",
	} {
		if err := w.g.Lookup(name, typeA); err == nil {
			t.Errorf("%q is answered", name)
		}
	}
	if err := w.g.Lookup("allowed.example", typeA); err != nil {
		t.Error(err)
	}
	if len(w.lookups) > 0 {
		t.Errorf("a resolver was asked for %q", w.lookups)
	}
	w.denied("dns-name")
	w.entry("the denied name", func(e policy.Entry) bool { return e.Name == "evil.example" && e.Hint != "" })
	// An empty list allows nothing.
	empty := newWorld(t, policy.Spec{})
	if empty.g.Lookup("allowed.example", typeA) == nil || empty.g.Accept(dest("allowed.example", 443)) == nil {
		t.Error("an empty policy allows something")
	}
}

// Labels are a way out only as far as a wildcard allows, and only so fast.
func TestAttackDNSExfiltration(t *testing.T) {
	w := newWorld(t, grants("*.wild.example"))
	now := time.Now()
	w.g.lookup.now = func() time.Time { return now }
	sent := 0
	for i := range 10_000 {
		name := fmt.Sprintf("%050d.wild.example", i)
		if w.g.Lookup(name, typeA) == nil {
			sent += len(name)
		}
	}
	if sent == 0 || sent > nameBurst {
		t.Errorf("%d bytes went out in names at one moment", sent)
	}
	if w.g.Lookup(fmt.Sprintf("%050d.wild.example", 0), typeA) != nil {
		t.Error("a name in use is not answered any more")
	}
	now = now.Add(10 * time.Second)
	more := 0
	for i := range 1000 {
		name := fmt.Sprintf("%050d.more.wild.example", i)
		if w.g.Lookup(name, typeAAAA) == nil {
			more += len(name)
		}
	}
	if more == 0 || more > 10*nameRate {
		t.Errorf("%d bytes went out in names within ten seconds", more)
	}
	w.denied("dns-rate")
	for _, qtype := range []uint16{16, 10, 255, 15, 33, 252, 65535} { // TXT, NULL, ANY, MX, SRV, AXFR
		_ = w.g.Lookup("x.wild.example", qtype)
	}
	w.denied("dns-type")
	if len(w.lookups) > 0 {
		t.Errorf("a resolver was asked for %q", w.lookups)
	}
}

// A server name that is not the connection's, or none, goes nowhere, opened or not.
func TestAttackServerNames(t *testing.T) {
	for what, spec := range map[string]policy.Spec{"passed": grants("a.test", "b.test"), "opened": withToken(grants("a.test", "b.test"), "https://a.test")} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, spec)
			var reached atomic.Int32
			w.serveTLS(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
			for _, name := range []string{"", "b.test", "evil.example", "xa.test", "a.test.evil.example", "127.0.0.1"} {
				c, err := w.dial(dest("a.test", 443))
				if err != nil {
					t.Fatal(err)
				}
				conn := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: name})
				if err := conn.Handshake(); err == nil {
					t.Errorf("%q is taken for a.test", name)
				}
				c.Close()
			}
			w.denied("sni")
			if n := reached.Load(); n > 0 {
				t.Errorf("%d requests came through", n)
			}
			// Neither is anything that is not TLS.
			if got := w.raw(dest("a.test", 443), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); !strings.Contains(got, "agentbox: denied") {
				t.Errorf("%q", got)
			}
			w.denied("not-tls")
			if got := w.raw(dest("a.test", 443), "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"); strings.Contains(got, "HTTP") {
				t.Errorf("%q", got)
			}
			w.denied("hello")
		})
	}
}

// Addresses that a name leads to are decided about when they are dialled, whatever the name is and
// said before.
func TestAttackAddresses(t *testing.T) {
	spec := policy.Spec{Layers: []policy.Layer{{Source: policy.User, Allow: []policy.Rule{rule("*.example")}, Private: []policy.Rule{rule("granted.example")}}}}
	w := newWorld(t, spec)
	w.serveHTTP(echo)
	for i, a := range []string{
		"127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "0.0.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1",
		"::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
	} {
		name := fmt.Sprintf("n%d.example", i)
		w.resolves(name, netip.MustParseAddr(a))
		status, body, _ := get(t, w.client(), "http://"+name+"/")
		if status != 403 || !strings.Contains(body, "agentbox: denied") {
			t.Errorf("%s: %d %s", a, status, body)
		}
		c, err := w.dial(dest(name, 443))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: read %d bytes", a, n)
		}
		w.entry("the refused address "+a, func(e policy.Entry) bool { return !e.Allow && e.Name == name && e.Kind == "address" })
	}
	// Not even a grant of private addresses reaches what no grant can mean.
	for _, a := range []string{"169.254.169.254", "0.0.0.0", "64:ff9b::7f00:1", "fe80::1"} {
		w.resolves("granted.example", netip.MustParseAddr(a))
		if status, body, _ := get(t, w.client(), "http://granted.example/"); status != 403 {
			t.Errorf("%s: %d %s", a, status, body)
		}
	}
	// Rebinding: the name was good a moment ago.
	w.resolves("granted.example", netip.MustParseAddr("127.0.0.1"))
	if status, body, _ := get(t, w.client(), "http://granted.example/"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	w.g.up.renew()
	w.resolves("granted.example", netip.MustParseAddr("169.254.169.254"))
	if status, _, _ := get(t, w.client(), "http://granted.example/"); status != 403 {
		t.Errorf("after rebinding: %d", status)
	}
}

// The host's own addresses are as private as loopback, and bare addresses need rules of their own.
func TestAttackOwnAndBareAddresses(t *testing.T) {
	own := netip.MustParseAddr("203.0.113.7")
	spec := policy.Spec{Layers: []policy.Layer{{Source: policy.User, Allow: []policy.Rule{rule("*.example")}}}}
	w := newWorld(t, spec)
	w.g.SetPolicy(policy.New(spec, func(a netip.Addr) bool { return a == own }))
	w.resolves("self.example", own)
	if status, body, _ := get(t, w.client(), "http://self.example/"); status != 403 {
		t.Errorf("%d %s", status, body)
	}
	for _, a := range []string{"1.1.1.1", "127.0.0.1", "169.254.169.254", "203.0.113.7", "::ffff:127.0.0.1", "2606:4700::1111", "0.0.0.0"} {
		for _, proto := range []policy.Proto{policy.TCP, policy.UDP} {
			for _, port := range []uint16{53, 80, 443, 853} {
				d := policy.Flow{Proto: proto, Addr: netip.MustParseAddr(a), Port: port}
				if err := w.g.Accept(d); err == nil {
					t.Errorf("%s %s:%d is accepted", proto, a, port)
				}
			}
		}
	}
	w.entry("the bare address", func(e policy.Entry) bool { return !e.Allow && e.Address == "1.1.1.1" && e.Port == 853 })
}
