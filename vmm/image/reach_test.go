package image

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"agentbox/agentbox"
)

func TestPrivateAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.1": true, "127.0.0.1": true, "169.254.169.254": true, "100.100.100.200": true, "168.63.129.16": true, "0.0.0.0": true, "::1": true, "::": true,
		"fe80::1%eth0": true, "fd00:ec2::254": true, "::ffff:10.0.0.1": true, "64:ff9b::a00:1": true, "2002:a00:1::": true, "224.0.0.1": true,
		"192.0.0.192": true, "198.18.0.1": true, "240.0.0.1": true, "0.1.2.3": true, "192.88.99.1": true, "2001::1": true,
		"1.1.1.1": false, "2606:4700::1111": false, "::ffff:1.1.1.1": false,
	} {
		if got := private(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// A name that looks like anybody's may lead to this very host.
func TestRegistryMustBePublic(t *testing.T) {
	called := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { called = true }))
	defer server.Close()
	client := &http.Client{Transport: publicTransport()}
	if _, err := client.Get(server.URL); agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(err.Error(), "private address") || called {
		t.Errorf("%v, called %v", err, called)
	}
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &publicDialer{proxy: func(*http.Request) (*url.URL, error) { return proxy, nil }}
	client = &http.Client{Transport: &http.Transport{Proxy: w.chooseProxy, DialContext: w.dial}}
	resp, err := client.Get("http://registry.example/v2/")
	if err != nil || !called {
		t.Fatalf("the user's own proxy: %v, called %v", err, called)
	}
	resp.Body.Close()
}

// The registry's own words lead nowhere either: where it sends for a token, or for a layer.
func TestRegistryRedirectMustBePublic(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a service of this network was called") }))
	defer inner.Close()
	outer := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusTemporaryRedirect))
	defer outer.Close()
	at, err := url.Parse(outer.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &publicDialer{proxy: func(r *http.Request) (*url.URL, error) { // the outer one stands for a server of the internet
		if r.URL.Host == "registry.example" {
			return at, nil
		}
		return nil, nil
	}}
	client := &http.Client{Transport: &http.Transport{Proxy: w.chooseProxy, DialContext: w.dial}}
	if _, err := client.Get("http://registry.example/v2/"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Error(err)
	}
}

// resolving has the resolver of this process answer every question with one address.
func resolving(t *testing.T, to netip.Addr) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answer(there, to)
		return here, nil
	}}
}

// answer speaks DNS over a stream: two bytes of length before each message.
func answer(conn net.Conn, to netip.Addr) {
	defer conn.Close()
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) == 0 {
		return
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: to.As4()}}}
	}
	text, err := m.Pack()
	if err != nil {
		return
	}
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
}

func TestLeadsToPrivate(t *testing.T) {
	for to, want := range map[string]bool{"10.1.2.3": true, "169.254.169.254": true, "93.184.215.14": false} {
		resolving(t, netip.MustParseAddr(to))
		for source, asked := range map[string]bool{"registry.example/x:1": true, "registry.example:8443/x": true, "apt:bookworm": false, "oci:/srv/x": false} {
			if got := LeadsToPrivate(t.Context(), source); got != (want && asked) {
				t.Errorf("%s at %s: %v", source, to, got)
			}
		}
	}
}
