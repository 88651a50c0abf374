package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"agentbox/tools/suites/gatewaytest"
)

func TestAttackFraming(t *testing.T) {
	for _, opened := range []bool{false, true} {
		w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
		var reached atomic.Int32
		serve := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
		w.serveHTTP(serve)
		w.serveTLS(serve)
		for what, request := range gatewaytest.Framings("a.test") {
			got := ""
			if opened {
				got = w.tlsRaw("a.test", request)
			} else {
				got = w.raw(dest("a.test", 80), request)
			}
			if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "agentbox: denied") {
				t.Errorf("%s (opened: %v): %.120q", what, opened, got)
			}
		}
		w.denied("framing")
		if n := reached.Load(); n > 0 {
			t.Errorf("%d requests came through", n)
		}
	}
}

// Bodies that are not framed as they say end the request before it ends at the server, and nothing
// behind them is read as a request of its own.
func TestAttackBodies(t *testing.T) {
	for what, chunks := range gatewaytest.Chunkings() {
		w := newWorld(t, grants("a.test"))
		var whole, others atomic.Int32
		w.serveHTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/up" {
				others.Add(1)
			}
			if _, err := io.ReadAll(r.Body); err == nil {
				whole.Add(1)
			}
		}))
		got := w.raw(dest("a.test", 80), "POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks+"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n")
		if strings.HasPrefix(got, "HTTP/1.1 200") || whole.Load() > 0 || others.Load() > 0 {
			t.Errorf("%s: %.60q, %d whole, %d others", what, got, whole.Load(), others.Load())
		}
		w.denied("framing")
	}
}

// The authority of each request is the connection's, in HTTP/1 and for each stream of HTTP/2.
func TestAttackAuthorities(t *testing.T) {
	w := newWorld(t, withToken(grants("a.test", "b.test"), "https://a.test"))
	var reached atomic.Int32
	serve := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	w.serveHTTP(serve)
	w.serveTLS(serve)
	for _, host := range []string{"b.test", "evil.example", "a.test:8080", "a.test:443x", "a.test@evil.example", "127.0.0.1", "xa.test", "a.test.evil.example", "", "a.test, b.test", "а.test", "a%2etest"} {
		for _, got := range []string{
			w.raw(dest("a.test", 80), "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"),
			w.tlsRaw("a.test", "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"),
		} {
			if !strings.HasPrefix(got, "HTTP/1.1 4") || strings.HasPrefix(got, "HTTP/1.1 404") {
				t.Errorf("%q: %.80q", host, got)
			}
		}
	}
	// One connection of HTTP/2, as a browser would share it between names of one certificate.
	c, err := w.dial(dest("a.test", 443))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: "a.test"},
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}
	defer transport.CloseIdleConnections()
	for _, host := range []string{"b.test", "evil.example"} {
		req, _ := http.NewRequest(http.MethodGet, "https://a.test/", nil)
		req.Host = host
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.ProtoMajor != 2 || res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s: %s %s", host, res.Proto, res.Status)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests came through", n)
	}
	w.denied("authority")
}

// What is no sound request is told as that, whatever authority it names: HTTP/2 has no framing that
// was checked before.
func TestAttackUnsoundHTTP2(t *testing.T) {
	w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
	w.serveTLS(echo)
	req, _ := http.NewRequest("brew", "https://a.test/", nil)
	req.Host = "evil.test"
	res, err := w.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusBadRequest {
		t.Errorf("%s %s", res.Proto, res.Status)
	}
	w.denied("framing")
}

// A server that changes protocols where none was to be changed is in league with its client: the
// connection goes on, and so does the check of what comes on it.
func TestAttackUnrequestedUpgrade(t *testing.T) {
	for what, asked := range map[string]string{"unasked": "", "to another": "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, grants("a.test"))
			w.serveHTTP(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				c, _, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					panic(err)
				}
				defer c.Close()
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			}))
			c, err := w.dial(dest("a.test", 80))
			if err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(c)
			for i, request := range []string{"GET / HTTP/1.1\r\nHost: a.test\r\n" + asked + "\r\n", "GET / HTTP/1.1\nHost: a.test\n\n"} {
				if _, err := io.WriteString(c, request); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if want := []int{http.StatusBadGateway, http.StatusBadRequest}[i]; res.StatusCode != want {
					t.Errorf("request %d: %s, want %d", i+1, res.Status, want)
				}
			}
			w.denied("framing")
		})
	}
}
