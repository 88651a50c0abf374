package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/policy"
)

// echo answers with what it was asked.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Authorization", r.Header.Get("Authorization"))
	fmt.Fprintf(w, "%s %s %s %s auth=%s", r.Proto, r.Method, r.Host, r.RequestURI, r.Header.Get("Authorization"))
})

func get(t *testing.T, c *http.Client, url string, header ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

func TestPlainHTTP(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	w.serveHTTP(echo)
	status, body, _ := get(t, w.client(), "http://a.test/x%2Fy;z?q=a;b&c=%zz")
	if status != 200 || body != "HTTP/1.1 GET a.test /x%2Fy;z?q=a;b&c=%zz auth=" {
		t.Errorf("got %d %s", status, body)
	}
	e := w.entry("the request", func(e policy.Entry) bool { return e.Allow && e.Method == "GET" })
	if e.Name != "a.test" || e.Port != 80 || e.In == 0 || strings.Contains(e.Path, "q=") || e.Address != "127.0.0.1" {
		t.Errorf("entry %+v", e)
	}
}

// Where nothing needs the inside, the box sees the server's own certificate, and neither side's
// bytes are touched.
func TestTLSPassesThrough(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	w.serveTLS(echo)
	c, err := w.dial(dest("a.test", 443))
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(c, &tls.Config{RootCAs: roots(), ServerName: "a.test"}) // the box's authority would not do
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	w.entry("the connection", func(e policy.Entry) bool { return e.Allow && e.Proto == policy.TLS && e.Out > 0 && e.In > 0 })
}

func TestTLSIsInspectedForSecrets(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			w := newWorld(t, withToken(grants("a.test", "b.test"), "https://a.test/v1/**"))
			seen := make(chan string, 1) // what the server saw last
			w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Get("Authorization")
				echo(rw, r)
			}))
			client := w.client()
			client.Transport.(*http.Transport).ForceAttemptHTTP2 = proto == "HTTP/2.0"
			basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+placeholder))
			for _, header := range []string{"Bearer " + placeholder, basic, placeholder} {
				status, body, h := get(t, client, "https://a.test/v1/x", "Authorization", header)
				want := strings.ReplaceAll(header, placeholder, secretValue)
				if header == basic {
					want = "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+secretValue))
				}
				if status != 200 {
					t.Fatalf("%s: %d %s", header, status, body)
				}
				if saw := <-seen; saw != want {
					t.Errorf("%s: the server saw %q, want %q", header, saw, want)
				}
				// What the server echoes is not shown to the box.
				_, token, _ := strings.Cut(" "+want, " ")
				for _, redaction := range []string{secretValue, want[strings.Index(want, " ")+1:], token} {
					if strings.Contains(body+h.Get("X-Authorization"), redaction) {
						t.Errorf("%s: the value came back: %s %v", header, body, h)
					}
				}
			}
			e := w.entry("with the secret's name", func(e policy.Entry) bool { return e.Allow && e.Secret == "TOKEN" })
			if strings.Contains(fmt.Sprint(e), secretValue) {
				t.Errorf("the log has the value: %+v", e)
			}
			// A name without secrets on the same port is not opened.
			c, err := w.dial(dest("b.test", 443))
			if err != nil {
				t.Fatal(err)
			}
			if err := tls.Client(c, &tls.Config{RootCAs: roots(), ServerName: "b.test"}).Handshake(); err != nil {
				t.Errorf("b.test: %v", err)
			}
		})
	}
}

// A secret with a header of its own is put there whatever the box sends.
func TestForeignCredentialsAreOverwritten(t *testing.T) {
	spec := grants("a.test")
	spec.Secrets = []policy.Secret{{Name: "TOKEN", Scope: []policy.Rule{rule("https://a.test")}, Header: "Authorization", Form: policy.Bearer, Placeholder: placeholder}}
	w := newWorld(t, spec)
	var seen []string
	w.serveTLS(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header["Authorization"]...) }))
	get(t, w.client(), "https://a.test/", "Authorization", "Bearer somebody-elses")
	get(t, w.client(), "https://a.test/")
	if len(seen) != 2 || seen[0] != "Bearer "+secretValue || seen[1] != seen[0] {
		t.Errorf("the server saw %q", seen)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	w := newWorld(t, grants("GET https://a.test/public/**"))
	w.serveTLS(echo)
	c := w.client()
	if status, body, _ := get(t, c, "https://a.test/public/x"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	status, body, _ := get(t, c, "https://a.test/private/x")
	if status != 403 || !strings.Contains(body, "agentbox policy allow") {
		t.Errorf("%d %s", status, body)
	}
	for _, path := range []string{"/public/../private", "/public/%2e%2e/private", "/public//..%2fprivate", "/public%2fx", "/%70ublic/../private"} {
		if got := w.tlsRaw("a.test", "GET "+path+" HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") {
			t.Errorf("%s: %.60q", path, got)
		}
	}
	res, err := c.Post("https://a.test/public/x", "text/plain", strings.NewReader("x"))
	if err != nil || res.StatusCode != 403 {
		t.Errorf("POST: %v %v", res, err)
	}
	w.entry("the denied path", func(e policy.Entry) bool { return !e.Allow && e.Path == "/private/x" && e.Hint != "" })
}

// tlsRaw sends bytes inside of TLS that the gateway opens.
func (w *world) tlsRaw(name, request string) string {
	w.t.Helper()
	c, err := w.dial(dest(name, 443))
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	pool := roots().Clone()
	pool.AppendCertsFromPEM(w.ca.PEM())
	conn := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: name})
	_, _ = io.WriteString(conn, request) // what is refused may not be read to its end
	b, _ := io.ReadAll(conn)
	return string(b)
}

// Any port: a server that speaks first, TLS, requests, and other bytes.
func TestOtherPorts(t *testing.T) {
	w := newWorld(t, grants("a.test:*"))
	greeter := w.serveRaw(2222, func(c net.Conn) {
		_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
		b := make([]byte, 16)
		n, _ := c.Read(b)
		_, _ = c.Write(bytes.ToUpper(b[:n]))
	})
	defer greeter.Close()
	c, err := w.dial(dest("a.test", 2222))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "SSH-2.0-x\r\n" {
		t.Fatalf("%q %v", b[:n], err)
	}
	_, _ = io.WriteString(c, "SSH-2.0-y\r\n")
	if answer, err := io.ReadAll(c); err != nil || string(answer) != "SSH-2.0-Y\r\n" {
		t.Errorf("%q %v", answer, err)
	}
	reader := w.serveRaw(6379, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		_, _ = fmt.Fprintf(c, "%d", len(b))
	})
	defer reader.Close()
	c, err = w.dial(dest("a.test", 6379))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "PING\r\n")
	_ = c.(*net.TCPConn).CloseWrite()
	if answer, err := io.ReadAll(c); err != nil || string(answer) != "6" {
		t.Errorf("%q %v", answer, err)
	}
	// Requests on a port of its own are requests, and must be for that name and port.
	s := w.serveHTTP(echo)
	w.g.up.ports[8080] = portOf(s.URL[strings.LastIndex(s.URL, ":")+1:])
	if status, body, _ := get(t, w.client(), "http://a.test:8080/x"); status != 200 || !strings.Contains(body, "a.test:8080 /x") {
		t.Errorf("%d %s", status, body)
	}
	if got := w.raw(dest("a.test", 8080), "GET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 421") {
		t.Errorf("%.80q", got)
	}
}

// serveRaw starts a server of bytes where the box finds a port.
func (w *world) serveRaw(port uint16, serve func(net.Conn)) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.g.up.ports[port] = uint16(l.Addr().(*net.TCPAddr).Port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l
}

// A connection that fails outside fails in the box before anything is read.
func TestUpstreamRefusal(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	w.g.up.ports[443] = closedPort(t)
	w.g.up.ports[80] = w.g.up.ports[443]
	c, err := w.dial(dest("a.test", 443))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
	w.entry("the failure", func(e policy.Entry) bool { return e.Kind == "failed" })
	status, body, _ := get(t, w.client(), "http://a.test/")
	if status != 502 || !strings.Contains(body, "refused") {
		t.Errorf("%d %s", status, body)
	}
}

// closedPort is one that nobody listens on, and that nobody else gets meanwhile.
func closedPort(t *testing.T) uint16 {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(name.(*syscall.SockaddrInet4).Port)
}

// Events come through one by one, opened or not, with what is hidden of them hidden.
func TestServerSentEvents(t *testing.T) {
	w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
	next := make(chan string)
	serve := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for e := range next {
			fmt.Fprintf(rw, "data: %s\n\n", e)
			rw.(http.Flusher).Flush()
		}
	})
	w.serveTLS(serve)
	req, _ := http.NewRequest(http.MethodGet, "https://a.test/events", nil)
	req.Header.Set("Authorization", "Bearer "+placeholder)
	go func() { next <- "begin" }()
	res, err := w.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b := make([]byte, 1024)
	for _, e := range []string{"begin", "one", secretValue, "two"} {
		if e != "begin" {
			next <- e
		}
		want := fmt.Sprintf("data: %s\n\n", strings.ReplaceAll(e, secretValue, placeholder[:len(secretValue)]))
		if _, err := io.ReadFull(res.Body, b[:len(want)]); err != nil || string(b[:len(want)]) != want {
			t.Fatalf("got %q, want %q: %v", b[:len(want)], want, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
}

// An upload is not kept: its bytes go as they come. The hash says that none is lost.
func TestUpload(t *testing.T) {
	size := int64(8 << 20)
	for _, spec := range []policy.Spec{grants("a.test"), withToken(grants("a.test"), "https://a.test")} {
		w := newWorld(t, spec)
		w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			h := sha256.New()
			n, _ := io.Copy(h, r.Body)
			fmt.Fprintf(rw, "%d %x", n, h.Sum(nil))
		}))
		h := sha256.New()
		body := io.TeeReader(io.LimitReader(&pattern{}, size), h)
		res, err := w.client().Post("https://a.test/up", "application/octet-stream", body)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if want := fmt.Sprintf("%d %s", size, hex.EncodeToString(h.Sum(nil))); string(b) != want {
			t.Errorf("got %s, want %s", b, want)
		}
	}
}

// pattern is bytes that do not repeat within a buffer's length.
type pattern struct{ n uint64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		p.n++
		b[i] = byte(p.n ^ p.n>>11)
	}
	return len(b), nil
}

// Close ends what is under way, and records it.
func TestClose(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	w.serveHTTP(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	c, err := w.dial(dest("a.test", 80))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if _, err := c.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	w.g.Close()
	if e := w.entry("the request", func(policy.Entry) bool { return true }); e.Path != "/wait" || w.count() != 1 {
		t.Errorf("%+v of %d", e, w.count())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := w.g.Stream(ctx, dest("a.test", 80), c.(*net.TCPConn)); err == nil {
		t.Error("a closed gateway carries a connection")
	}
}

// An API that a secret is for answers with a refusal where the policy denies it, as agents go on
// asking for minutes for a name that does not exist. The secret goes nowhere, and no server is asked.
func TestDeniedAPIAnswers(t *testing.T) {
	w := newWorld(t, withToken(grants("other.example:80"), "https://api.example"))
	w.spec.Layers[0].Deny = []policy.Rule{rule("api.example")}
	w.g.SetPolicy(policy.New(w.spec, nil))
	if err := w.g.Lookup("api.example", typeA); err != nil {
		t.Errorf("the name does not exist: %v", err)
	}
	status, text, header := get(t, w.client(), "https://api.example/v1/messages", "Authorization", placeholder)
	if status != http.StatusForbidden || !strings.Contains(text, "agentbox: denied: GET api.example:443/v1/messages") || header.Get("X-Agentbox") != "denied" {
		t.Errorf("%d %q", status, text)
	}
	if w.denied(policy.KindFlow); len(w.lookups) != 0 {
		t.Errorf("servers were looked up: %q", w.lookups)
	}
	for _, f := range []policy.Flow{dest("api.example", 22), dest("www.api.example", 443), dest("", 443)} {
		if err := w.g.Accept(f); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	if err := w.g.Lookup("www.api.example", typeA); err == nil {
		t.Error("a name that no secret is for exists")
	}
}
