package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"agentbox/policy"
)

// tunnel is a TLS connection of the box that passes unread.
func (w *world) tunnel(name string) *tls.Conn {
	w.t.Helper()
	c, err := w.dial(dest(name, 443))
	if err != nil {
		w.t.Fatal(err)
	}
	conn := tls.Client(c, &tls.Config{RootCAs: roots(), ServerName: name})
	if err := conn.Handshake(); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func denying(s policy.Spec, rules ...string) *policy.Policy {
	l := policy.Layer{Source: policy.User}
	for _, r := range rules {
		l.Deny = append(l.Deny, rule(r))
	}
	s.Layers = append([]policy.Layer{l}, s.Layers...)
	return policy.New(s, nil)
}

// A connection that passes unread ends when requests on it have to be decided.
func TestAttackTunnelsOfNarrowedHosts(t *testing.T) {
	for what, narrow := range map[string]*policy.Policy{
		"a method is denied":       denying(grants("a.test", "b.test"), "POST a.test"),
		"a path is denied":         denying(grants("a.test", "b.test"), "https://a.test/admin/**"),
		"only a path is allowed":   policy.New(grants("https://a.test/public/**", "b.test"), nil),
		"an organisation bounds":   policy.New(policy.Spec{Layers: append([]policy.Layer{{Source: policy.Organisation, Bound: true, Private: []policy.Rule{rule("GET a.test"), rule("b.test")}}}, grants("a.test", "b.test").Layers...)}, nil),
		"a secret goes there":      policy.New(withToken(grants("a.test", "b.test"), "https://a.test"), nil),
		"its address is denied":    denying(grants("a.test", "[127.0.0.1]:443", "b.test"), "127.0.0.1/32"),
		"a method, by its address": denying(grants("a.test", "b.test"), "POST 127.0.0.1"),
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, grants("a.test", "b.test"))
			w.resolves("b.test", netip.MustParseAddr("127.0.0.2"))
			var posts int
			server := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					posts++
				}
				echo(rw, r)
			})
			w.serveTLSAnywhere(server)
			narrowed, stays := w.tunnel("a.test"), w.tunnel("b.test")
			for _, c := range []*tls.Conn{narrowed, stays} {
				if got := ask(c, "GET / HTTP/1.1\r\nHost: x.test\r\n\r\n"); !strings.HasPrefix(got, "200") {
					t.Fatalf("before: %q", got)
				}
			}
			w.g.SetPolicy(narrow)
			if got := ask(narrowed, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"); posts > 0 {
				t.Errorf("POST passes: %q", got)
			}
			if got := ask(stays, "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n"); !strings.HasPrefix(got, "200") {
				t.Errorf("what was not narrowed: %q", got)
			}
			w.denied("policy-changed")
		})
	}
}

// ask sends a request on an open connection and gives the status of the answer, or the error.
func ask(c net.Conn, request string) string {
	if _, err := io.WriteString(c, request); err != nil {
		return err.Error()
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Status
}

// A kept connection to a server is not used for requests when its address has been denied since,
// busy or not.
func TestAttackKeepAliveToDeniedAddress(t *testing.T) {
	spec := withToken(grants("a.test"), "https://a.test") // opened, so requests share connections outside
	w := newWorld(t, spec)
	started := make(chan struct{})
	asked := make(chan string, 16)
	w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.URL.Path == "/long" {
			rw.(http.Flusher).Flush()
			close(started)
			<-r.Context().Done()
		}
	}))
	c := w.client()
	res, err := c.Get("https://a.test/long")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-started
	<-asked
	w.g.SetPolicy(denying(spec, "127.0.0.1"))
	if status, body, _ := get(t, c, "https://a.test/next"); status != 403 || len(asked) > 0 {
		t.Errorf("%d %s", status, body)
	}
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the request under way goes on to its end")
	}
	w.denied("address")
}

// A connection that was dialled under an earlier policy serves no later request, even if it is busy
// and still allowed: it may be about to end.
func TestPolicyChangeRedials(t *testing.T) {
	spec := withToken(grants("a.test"), "https://a.test")
	w := newWorld(t, spec)
	from := make(chan string, 16)
	w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		from <- r.RemoteAddr
		if r.URL.Path == "/long" {
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	c := w.client()
	res, err := c.Get("https://a.test/long")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	before := <-from
	if status, body, _ := get(t, c, "https://a.test/shares"); status != 200 || <-from != before {
		t.Fatalf("under one policy: %d %s", status, body)
	}
	w.g.SetPolicy(policy.New(spec, nil))
	if status, body, _ := get(t, c, "https://a.test/next"); status != 200 {
		t.Fatalf("after the change: %d %s", status, body)
	}
	if after := <-from; after == before {
		t.Error("a connection of the earlier policy was used")
	}
}

// While the value of a secret is fetched, which may take a person's time, the policy changes: the
// decision is taken again.
func TestAttackPolicyChangeDuringSecretFetch(t *testing.T) {
	before := withToken(grants("a.test"), "https://a.test")
	for what, after := range map[string]*policy.Policy{
		"the request is denied":      denying(before, "GET a.test"),
		"the host is denied":         denying(before, "a.test"),
		"the secret is taken back":   policy.New(grants("a.test"), nil),
		"the secret goes elsewhere":  policy.New(withToken(grants("a.test"), "https://b.test"), nil),
		"the secret is for POST now": policy.New(withToken(grants("a.test"), "POST https://a.test"), nil),
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, before)
			var asked int
			w.serveTLS(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
			slow := &slowValues{asked: make(chan struct{}), answer: make(chan struct{})}
			w.g.cfg.Values = slow
			go func() {
				<-slow.asked
				w.g.SetPolicy(after)
				close(slow.answer)
			}()
			req, _ := http.NewRequest(http.MethodGet, "https://a.test/", nil)
			req.Header.Set("Authorization", "Bearer "+placeholder)
			res, err := w.client().Do(req)
			if err == nil { // else the whole connection has ended
				defer res.Body.Close()
			}
			if err == nil && res.StatusCode != 403 || asked > 0 {
				t.Errorf("%v %v; the server was asked %d times", res, err, asked)
			}
			w.denied("policy-changed")
		})
	}
}

type slowValues struct{ asked, answer chan struct{} }

func (s *slowValues) Value(ctx context.Context, _ string) (string, error) {
	close(s.asked)
	select {
	case <-s.answer:
		return secretValue, nil
	case <-ctx.Done():
		return "", errors.New("nobody waits")
	}
}

// A policy that changes while the place outside is dialled counts for the connection that comes of
// it.
func TestAttackPolicyChangeDuringDial(t *testing.T) {
	w := newWorld(t, grants("a.test"))
	w.serveTLS(echo)
	resolving, go_ := make(chan struct{}), make(chan struct{})
	resolve := w.g.cfg.Resolve
	w.g.cfg.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
		close(resolving)
		<-go_
		return resolve(ctx, name)
	}
	c, err := w.dial(dest("a.test", 443))
	if err != nil {
		t.Fatal(err)
	}
	<-resolving
	w.g.SetPolicy(denying(grants("a.test"), "POST a.test"))
	close(go_)
	conn := tls.Client(c, &tls.Config{RootCAs: roots(), ServerName: "a.test"})
	if err := conn.Handshake(); err == nil {
		t.Error("a connection passes unread that has to be opened")
	}
}
