package main

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"agentbox/tools/suites/gatewaytest"
)

// dial connects and sets a deadline for everything on the connection.
func dial(address string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", address, timeLimit)
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(timeLimit))
	}
	return c, err
}

// open connects to a host by TLS with any server name. It accepts any certificate.
func open(host, name string, protos ...string) (net.Conn, error) {
	c, err := dial(host + ":443")
	if err != nil {
		return nil, err
	}
	conn := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: name, NextProtos: protos})
	if err := conn.Handshake(); err != nil {
		c.Close()
		return nil, err
	}
	return conn, nil
}

// handshake returns "" if a handshake fails, as it must.
func handshake(host, name string) string {
	c, err := open(host, name)
	if err != nil {
		return ""
	}
	c.Close()
	return "a handshake"
}

// exchange sends a request and returns everything until the other end closes the connection, so
// that a second response is visible. It returns the text of err, which is that of the connection.
func exchange(c net.Conn, err error, request string) string {
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_, _ = io.WriteString(c, request)
	b, _ := io.ReadAll(c)
	return string(b)
}

// sites are both allowed sites. The gateway opens the TLS of a.example, for its secret, and passes
// that of b.example through.
var sites = []string{"a.example", "b.example"}

// serverNames sends server names other than the connection's, and data that is not TLS, to addresses
// that are allowed.
func serverNames() {
	for _, site := range sites {
		for _, name := range []string{"", "x" + site, site + ".evil.example", "evil.example", "127.0.0.1", sites[0], sites[1]} {
			if name != site {
				report("sni", name+" at "+site, handshake(site, name))
			}
		}
		c, err := dial(site + ":443")
		report("not-tls", "HTTP at "+site, unless("agentbox: denied", exchange(c, err, "GET /secret HTTP/1.1\r\nHost: "+site+"\r\n\r\n")))
		c, err = dial(site + ":443")
		got := exchange(c, err, "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
		if !strings.Contains(got, "HTTP") {
			got = ""
		}
		report("hello", "half a hello at "+site, got)
	}
}

// unless returns "" if the answer contains the text of a refusal, and otherwise the answer.
func unless(refusal, answer string) string {
	if strings.Contains(answer, refusal) {
		return ""
	}
	return "answer: " + answer
}

// ways are the ways to send an HTTP/1 request to a.example: in the clear, and by TLS that the
// gateway opens. Each has its own parsers between the box and the site.
var ways = map[string]func() (net.Conn, error){
	"in the clear": func() (net.Conn, error) { return dial("a.example:80") },
	"opened":       func() (net.Conn, error) { return open("a.example", "a.example", "http/1.1") },
}

// framings sends requests that servers may parse in two ways (request smuggling). A second request
// hidden in the body of the first would be forwarded with the permission of the first. The forms are
// those of the gateway's own tests (gatewaytest).
func framings() {
	for way, connect := range ways {
		for what, request := range gatewaytest.Framings("a.example") {
			c, err := connect()
			report("framing", what+" "+way, unless("agentbox: denied", exchange(c, err, request)))
		}
		for what, chunks := range gatewaytest.Chunkings() {
			c, err := connect()
			got := exchange(c, err, "POST /redirect?to=/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks+"GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 2") && strings.Count(got, "HTTP/1.1 ") <= 1 {
				got = ""
			}
			report("framing", "chunks: "+what+" "+way, got)
		}
	}
}

// authorities sends requests whose host or authority is not the connection's, over HTTP/1 and
// HTTP/2, and requests with headers that override the method.
func authorities() {
	for way, connect := range ways {
		for _, host := range []string{"b.example", "evil.example", "a.example:8080", "127.0.0.1", "xa.example", "a.example.evil.example", "a%2eexample"} {
			c, err := connect()
			report("authority", host+" "+way, unless("agentbox: denied", exchange(c, err, "GET /secret HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")))
		}
	}
	for _, field := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		c, err := dial("a.example:80")
		report("method-override", field, unless("agentbox: denied", exchange(c, err, "GET /secret HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n"+field+": delete\r\n\r\n")))
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	for _, method := range []string{http.MethodGet, http.MethodConnect} {
		for _, host := range []string{"b.example", "evil.example:443"} {
			req, err := http.NewRequest(method, "https://a.example/secret", nil)
			if err != nil {
				panic(err)
			}
			req.Host = host
			kind := "authority"
			if method == http.MethodConnect {
				kind = "framing"
			}
			report(kind, "HTTP/2 "+method+" "+host, unless(" 4", roundTrip(transport, req)))
		}
	}
}

// roundTrip returns the protocol and status of an answer, or the text of an error. It follows no
// redirects.
func roundTrip(t http.RoundTripper, req *http.Request) string {
	res, err := t.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	return res.Proto + " " + res.Status
}

// secrets sends the placeholder in $TOKEN to other places than a header for a.example/allowed. The
// placeholder itself is not secret, but a gateway that replaced it anywhere else would leak the
// value.
func secrets() {
	token := os.Getenv("TOKEN")
	half := len(token) / 2
	encoded := base64.StdEncoding.EncodeToString([]byte(token))
	for what, a := range map[string]struct{ url, body, name, value string }{
		"another host":     {"http://b.example/secret", "", "Authorization", "Bearer " + token},
		"in the clear":     {"http://a.example/allowed", "", "Authorization", "Bearer " + token},
		"another path":     {"https://a.example/secret", "", "Authorization", "Bearer " + token},
		"another method":   {"https://a.example/allowed", "x", "Authorization", "Bearer " + token},
		"path around":      {"https://a.example/allowed/../secret", "", "Authorization", "Bearer " + token},
		"query":            {"https://a.example/allowed?t=" + token, "", "", ""},
		"encoded twice":    {"https://a.example/allowed?t=" + url.QueryEscape(strings.ReplaceAll(token, "-", "%2d")), "", "", ""},
		"body":             {"http://b.example/secret", token, "", ""},
		"split":            {"https://a.example/allowed", "", "X-A", token[:half] + "\x00" + token[half:]},
		"base64":           {"https://a.example/allowed", "", "X-A", encoded},
		"Basic":            {"http://b.example/secret", "", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+token))},
		"name of a header": {"https://a.example/allowed", "", token, "x"},
	} {
		method := http.MethodGet
		if a.body != "" {
			method = http.MethodPost
		}
		req, err := http.NewRequest(method, a.url, strings.NewReader(a.body))
		if err != nil {
			panic(err)
		}
		if one, other, ok := strings.Cut(a.value, "\x00"); ok {
			req.Header["X-A"], req.Header["X-B"] = []string{one}, []string{other}
		} else if a.name != "" {
			req.Header[a.name] = []string{a.value}
		}
		report("placeholder", what, unless(" 403 ", roundTrip(http.DefaultTransport, req)))
	}
	// Redirects on which the client sends the credential again: in the clear, and to another host.
	for _, to := range []string{"http://a.example/secret", "http://b.example/secret"} {
		authorized := func(next *http.Request, _ []*http.Request) error {
			next.Header.Set("Authorization", "Bearer "+token)
			return nil
		}
		report("placeholder", "redirect to "+to, unless("403 ", describe(ask("https://a.example/allowed?to="+to, "Bearer "+token, authorized))))
	}
	// A client that does not: the other host must not get the value.
	fmt.Print("stripped ", describe(ask("https://a.example/allowed?to=http://b.example/allowed", "Bearer "+token)))
	use()
}

// use sends the placeholder where it is allowed, and prints the value that the site echoes.
func use() {
	fmt.Print("echo ", describe(ask("https://a.example/allowed", "Bearer "+os.Getenv("TOKEN"))))
}

// ask makes a request with a credential. The last redirect, if any, becomes the client's
// CheckRedirect.
func ask(url, authorization string, redirect ...func(*http.Request, []*http.Request) error) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", authorization)
	client := &http.Client{}
	for _, f := range redirect {
		client.CheckRedirect = f
	}
	return client.Do(req)
}

// describe returns the status and body of an answer, or the text of an error.
func describe(res *http.Response, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.Status + " " + string(b)
}
