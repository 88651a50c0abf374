package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// framings are requests that are not what every server reads in the same way.
var framings = map[string]string{
	"duplicate Host":          "GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.example\r\n\r\n",
	"no Host":                 "GET / HTTP/1.1\r\nX: y\r\n\r\n",
	"absolute form":           "GET http://evil.example/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"absolute form, same":     "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"CONNECT":                 "CONNECT evil.example:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"authority form":          "GET evil.example:80 HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"CL and TE":               "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two lengths":             "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
	"list of lengths":         "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4, 4\r\n\r\nabcd",
	"signed length":           "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +4\r\n\r\nabcd",
	"odd coding":              "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
	"coding twice":            "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"coding in 1.0":           "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"space before colon":      "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length : 4\r\n\r\n",
	"folded line":             "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\n",
	"bare LF":                 "GET / HTTP/1.1\nHost: a.test\n\n",
	"bare LF in a field":      "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
	"bare CR":                 "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rb\r\n\r\n",
	"NUL":                     "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\x00b\r\n\r\n",
	"h2c":                     "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	"h2 preface":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"HTTP/0.9":                "GET /\r\n\r\n",
	"lower-case method":       "get / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"Trailer":                 "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: Host\r\n\r\n0\r\nHost: evil.example\r\n\r\n",
	"control in target":       "GET /\x01 HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"fragment":                "GET /#x HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"header flood":            "GET / HTTP/1.1\r\nHost: a.test\r\n" + strings.Repeat("X: y\r\n", maxFields+1) + "\r\n",
	"long head":               "GET / HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("y", maxHead) + "\r\n\r\n",
	"endless head":            "GET / HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("y", 2*maxHead),
	"empty line first":        "\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	"bytes of something else": "\x00\x01\x02\x03\r\n\r\n",
}

func TestAttackFraming(t *testing.T) {
	for _, opened := range []bool{false, true} {
		w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
		var reached atomic.Int32
		serve := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })
		w.serveHTTP(serve)
		w.serveTLS(serve)
		for what, request := range framings {
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

// Bodies that are not framed as they say end the request before it ends at the server, and nothing behind them is read as a
// request of its own.
func TestAttackBodies(t *testing.T) {
	for what, chunks := range map[string]string{
		"trailers":         "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"extension":        "3;x=y\r\nabc\r\n0\r\n\r\n",
		"hex prefix":       "0x3\r\nabc\r\n0\r\n\r\n",
		"negative":         "-3\r\nabc\r\n0\r\n\r\n",
		"overflow":         "ffffffffffffffff1\r\nabc\r\n0\r\n\r\n",
		"longer than said": "3\r\nabcdef\r\n0\r\n\r\n",
		"bare LF":          "3\nabc\n0\n\n",
		"long line":        strings.Repeat("0", 100) + "3\r\nabc\r\n0\r\n\r\n",
	} {
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
	for _, host := range []string{"b.test", "evil.example", "a.test:8080", "a.test:443x", "a.test@evil.example", "127.0.0.1", "xa.test", "a.test.evil.example", "", "a.test, b.test", "а.test"} {
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
