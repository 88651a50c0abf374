package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agentbox/policy"
)

// silence is for how long the streams of this file say nothing. The clock of these tests is the
// bubble's, so it costs no time, and every deadline on the way that could cut a silent stream
// comes.
const silence = time.Hour

// inMemory is a world whose site, and the ways to it, are in memory, as synctest wants it. What it
// gives connects the box.
func inMemory(t *testing.T, opened bool, site http.Handler) (w *world, client *http.Client, dial func() net.Conn) {
	spec := grants("a.test")
	if opened {
		spec = withToken(spec, "https://a.test")
	}
	w = newWorld(t, spec)
	authority, err := NewCA("a site")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Certificate("a.test")
	if err != nil {
		t.Fatal(err)
	}
	outside := x509.NewCertPool()
	outside.AppendCertsFromPEM(authority.PEM())
	w.g.cfg.Roots = outside
	w.g.up.renew()
	open, closed := context.WithCancel(context.Background())
	ways := &connListener{open, make(chan net.Conn)}
	server := &http.Server{
		Handler: site, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}},
	}
	go func() { _ = server.ServeTLS(ways, "", "") }()
	t.Cleanup(func() { closed(); server.Close() })
	w.g.up.memory = func() net.Conn {
		here, there := net.Pipe()
		ways.conns <- there
		return here
	}
	dial = func() net.Conn {
		d := dest("a.test", 443)
		if err := w.g.Accept(d); err != nil {
			t.Fatal(err)
		}
		box, host := net.Pipe()
		go func() {
			defer host.Close()
			_ = w.g.Stream(context.Background(), d, wholeClose{host})
		}()
		t.Cleanup(func() { box.Close() })
		return box
	}
	believed := outside
	if opened {
		believed = x509.NewCertPool()
		believed.AppendCertsFromPEM(w.ca.PEM())
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: believed, ServerName: "a.test"},
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
	}
	t.Cleanup(transport.CloseIdleConnections)
	return w, &http.Client{Transport: transport}, dial
}

// wholeClose is a connection in memory, which has no half to close.
type wholeClose struct{ net.Conn }

func (w wholeClose) CloseWrite() error { return w.Close() }

// sse is a server-sent event, an hour of nothing, and another.
func sse(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/event-stream")
	for i := range 2 {
		if i > 0 {
			time.Sleep(silence)
		}
		fmt.Fprintf(rw, "data: %d\n\n", i)
		rw.(http.Flusher).Flush()
	}
}

// conversation answers each message of five bytes before the next is sent, and ends with a trailer,
// as gRPC does.
func conversation(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/grpc")
	rw.(http.Flusher).Flush()
	b := make([]byte, 5)
	for {
		if _, err := io.ReadFull(r.Body, b); err != nil {
			break
		}
		_, _ = rw.Write(bytes.ToUpper(b))
		rw.(http.Flusher).Flush()
	}
	rw.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// socket answers what comes behind an upgrade with frames of a WebSocket.
func socket(rw http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, switching+"\r\n")
	b := make([]byte, 7)
	for {
		if _, err := io.ReadFull(buffered, b); err != nil {
			return
		}
		_, _ = conn.Write(frame(true, 1, nil, string(bytes.ToUpper(b[2:]))))
	}
}

// upload counts what it is sent.
func upload(rw http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(rw, "%d %v", n, err)
}

// authorized lets in who has the value, when there is one to have.
func authorized(opened bool, h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if opened && r.Header.Get("Authorization") != "Bearer "+secretValue {
			http.Error(rw, "who are you", http.StatusUnauthorized)
			return
		}
		h(rw, r)
	})
}

// Every kind of long stream outlives an hour of silence, whether TLS is opened or passed.
func TestLongStreams(t *testing.T) {
	roots() // or the servers of other tests would be certified at the bubble's time
	for name, stream := range map[string]struct {
		site  http.HandlerFunc
		proto int   // of HTTP
		bytes int64 // each way, where they are as many
		talk  func(t *testing.T, client *http.Client, dial func() net.Conn)
	}{
		"events over HTTP/1.1": {sse, 1, 0, listen},
		"events over HTTP/2":   {sse, 2, 0, listen},
		"gRPC":                 {conversation, 2, 10, converse},
		"WebSocket":            {socket, 1, 14, upgrade},
		"upload over HTTP/1.1": {upload, 1, 0, send},
		"upload over HTTP/2":   {upload, 2, 0, send},
	} {
		for mode, opened := range map[string]bool{"opened": true, "passed": false} {
			t.Run(name+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, client, dial := inMemory(t, opened, authorized(opened, stream.site))
					if transport := client.Transport.(*http.Transport); stream.proto == 1 {
						transport.ForceAttemptHTTP2 = false
						transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
					}
					stream.talk(t, client, dial)
					client.CloseIdleConnections()
					if opened {
						w.entry("of the secret and the bytes", func(e policy.Entry) bool {
							return e.Allow && e.Secret == "TOKEN" && (stream.bytes == 0 || e.In == stream.bytes && e.Out == stream.bytes)
						})
					}
				})
			})
		}
	}
}

// request begins a request and gives its response, with the status that it should have.
func request(t *testing.T, client *http.Client, method string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://a.test/stream", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+placeholder)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	return res
}

func listen(t *testing.T, client *http.Client, _ func() net.Conn) {
	b, err := io.ReadAll(request(t, client, http.MethodGet, nil).Body)
	if err != nil || string(b) != "data: 0\n\ndata: 1\n\n" {
		t.Errorf("%q %v", b, err)
	}
}

func converse(t *testing.T, client *http.Client, _ func() net.Conn) {
	ours, theirs := io.Pipe()
	res := request(t, client, http.MethodPost, ours)
	b := make([]byte, 5)
	for range 2 {
		_, _ = io.WriteString(theirs, "hello")
		if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != "HELLO" {
			t.Fatalf("%q %v", b, err)
		}
		time.Sleep(silence)
	}
	theirs.Close()
	_, err := io.ReadAll(res.Body)
	if res.ProtoMajor != 2 || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%s, trailer %v, %v", res.Proto, res.Trailer, err)
	}
}

func upgrade(t *testing.T, client *http.Client, dial func() net.Conn) {
	conn := tls.Client(dial(), client.Transport.(*http.Transport).TLSClientConfig)
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, "GET /stream HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer "+placeholder+"\r\n\r\n")
	}()
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil || !bytes.HasPrefix(b[:n], []byte("HTTP/1.1 101 ")) {
		t.Fatalf("%q %v", b[:n], err)
	}
	for range 2 {
		_, _ = conn.Write(frame(true, 1, nil, "hello"))
		if _, err := io.ReadFull(conn, b[:7]); err != nil || string(b[2:7]) != "HELLO" {
			t.Fatalf("%q %v", b[:7], err)
		}
		time.Sleep(silence)
	}
}

func send(t *testing.T, client *http.Client, _ func() net.Conn) {
	ours, theirs := io.Pipe()
	go func() {
		for range 3 {
			_, _ = theirs.Write(make([]byte, 100_000))
			time.Sleep(silence)
		}
		theirs.Close()
	}()
	b, err := io.ReadAll(request(t, client, http.MethodPost, ours).Body)
	if err != nil || string(b) != "300000 <nil>" {
		t.Errorf("%q %v", b, err)
	}
}
