package gateway

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/policy"
)

// patience is how long a test waits for what must happen: the machine may be busy with other
// things.
const patience = 5 * time.Minute

// world is a gateway between a box, which is this test, and servers on loopback.
type world struct {
	t    *testing.T
	g    *Gateway
	ca   *CA
	spec policy.Spec

	mu      sync.Mutex
	entries []policy.Entry
	values  map[string]string
	addrs   map[string][]netip.Addr // of names; loopback where absent
	lookups []string                // names that the gateway asked the resolver for
}

const secretValue = "s3cr3t-Value/with+chars=="

// placeholder is as a box would get one.
const placeholder = policy.PlaceholderPrefix + "k7w2m9x4q8z1v5b3n6c0p2r4t8y1u5h3"

// newWorld starts a gateway with rules for the names of a test. Everything is on loopback, so all
// grants are private.
func newWorld(t *testing.T, spec policy.Spec) *world {
	t.Helper()
	w := &world{t: t, spec: spec, values: map[string]string{"TOKEN": secretValue}, addrs: map[string][]netip.Addr{}}
	ca, err := NewCA("b-test")
	if err != nil {
		t.Fatal(err)
	}
	w.ca = ca
	w.g = New(Config{
		Policy: policy.New(spec, nil), Values: w, CA: ca,
		Audit: func(e policy.Entry) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.entries = append(w.entries, e)
		},
		Roots: roots(),
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lookups = append(w.lookups, name)
			if a, ok := w.addrs[name]; ok {
				return a, nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	})
	w.g.up.ports = map[uint16]uint16{}
	t.Cleanup(w.g.Close)
	return w
}

func (w *world) Value(_ context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.values[name]
	if !ok {
		return "", fmt.Errorf("there is no secret %s", name)
	}
	return v, nil
}

// resolves has a name lead to an address from now on.
func (w *world) resolves(name string, a netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addrs[name] = []netip.Addr{a}
}

// grants is a policy that allows these rules, private addresses included.
func grants(rules ...string) policy.Spec {
	l := policy.Layer{Source: policy.User}
	for _, r := range rules {
		l.Private = append(l.Private, rule(r))
	}
	return policy.Spec{Layers: []policy.Layer{l}}
}

func rule(s string) policy.Rule {
	r, err := policy.ParseRule(s)
	if err != nil {
		panic(err)
	}
	return r
}

// withToken adds the secret TOKEN for a scope.
func withToken(s policy.Spec, scope string) policy.Spec {
	s.Secrets = append(s.Secrets, policy.Secret{Name: "TOKEN", Scope: []policy.Rule{rule(scope)}, Placeholder: placeholder})
	return s
}

// dest is where a box goes that looked a name up.
func dest(name string, port uint16) policy.Flow {
	f := policy.Flow{Proto: policy.TCP, Name: name, Port: port}
	if name == "" {
		f.Addr = netip.MustParseAddr("100.64.0.9")
	}
	return f
}

// dial is the box opening a connection. The error is the gateway's refusal before the connection
// stands.
func (w *world) dial(d policy.Flow) (net.Conn, error) {
	if err := w.g.Accept(d); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Close()
	box, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	host, err := l.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { box.Close() })
	go func() {
		defer host.Close()
		_ = w.g.Stream(context.Background(), d, host.(*net.TCPConn))
	}()
	_ = box.SetDeadline(time.Now().Add(patience))
	return box, nil
}

// client is an HTTP client in the box, which resolves names as the gateway tells it and believes
// the box's authority.
func (w *world) client() *http.Client {
	pool := roots().Clone()
	pool.AppendCertsFromPEM(w.ca.PEM())
	return &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			ForceAttemptHTTP2: true,
			TLSClientConfig:   &tls.Config{RootCAs: pool},
			DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
				host, port, _ := net.SplitHostPort(address)
				return w.dial(dest(host, portOf(port)))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func portOf(s string) uint16 {
	var n uint16
	_, _ = fmt.Sscan(s, &n)
	return n
}

// serveHTTP starts a plain web server where the box finds port 80.
func (w *world) serveHTTP(h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.g.up.ports[80] = portOf(s.URL[strings.LastIndex(s.URL, ":")+1:])
	return s
}

// serveTLS starts a web server for every name under test where the box finds port 443.
func (w *world) serveTLS(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{serverCert()}}
	s.StartTLS()
	w.t.Cleanup(s.Close)
	w.g.up.ports[443] = portOf(s.URL[strings.LastIndex(s.URL, ":")+1:])
	return s
}

// entry waits for an entry that fits.
func (w *world) entry(what string, fits func(policy.Entry) bool) policy.Entry {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		for _, e := range w.entries {
			if fits(e) {
				w.mu.Unlock()
				return e
			}
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Fatalf("no entry of the audit log is %s; of %d entries the last are %+v", what, len(w.entries), w.entries[max(0, len(w.entries)-5):])
	return policy.Entry{}
}

// denied waits for a refusal of a kind.
func (w *world) denied(kind string) policy.Entry {
	w.t.Helper()
	return w.entry("a refusal of kind "+kind, func(e policy.Entry) bool { return !e.Allow && e.Kind == kind })
}

// raw is what a box gets for the bytes it sends.
func (w *world) raw(d policy.Flow, request string) string {
	w.t.Helper()
	c, err := w.dial(d)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_, _ = io.WriteString(c, request) // what is refused may not be read to its end
	answer, _ := io.ReadAll(bufio.NewReader(c))
	return string(answer)
}

// The authority of the servers outside.
var outside = sync.OnceValue(func() *CA {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "outside"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &CA{cert: cert, key: key, leaf: key, leaves: map[string]*tls.Certificate{}}
})

func roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(outside().cert)
	return pool
}

// serverCert is for every name below test.
func serverCert() tls.Certificate {
	c, err := outside().Certificate("*.test")
	if err != nil {
		panic(err)
	}
	return *c
}

// serveTLSAnywhere is serveTLS on all of loopback, for names with addresses of their own.
func (w *world) serveTLSAnywhere(h http.Handler) {
	s := httptest.NewUnstartedServer(h)
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		w.t.Fatal(err)
	}
	s.Listener = l
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{serverCert()}}
	s.StartTLS()
	w.t.Cleanup(s.Close)
	w.g.up.ports[443] = uint16(l.Addr().(*net.TCPAddr).Port)
}
