package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// addresses connects to addresses to which no allowed name may resolve: directly, through a CNAME,
// and after the name has first resolved elsewhere (DNS rebinding). They are this host, private and
// link-local networks, metadata services of clouds, multicast, and the ways to write an IPv4 address
// as IPv6.
func addresses() {
	for _, a := range []string{
		"127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1",
		"203.0.113.7", "::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::1",
		"fe80::1", "fd00:ec2::254", "ff02::1",
	} {
		for _, how := range []string{"at", "cname"} {
			name := host(how, a)
			got := fetch("http://" + name + "/secret")
			if strings.HasPrefix(got, "403 agentbox: denied") {
				got = ""
			}
			report("address", how+" "+a, got)
			report("address", how+" "+a+" by TLS", handshake(name, name))
		}
	}
	// The address of a name must be checked at each connection, even if it was harmless before.
	turns := host("turn", "169.254.169.254")
	if got := fetch("http://" + turns + "/redirect?to=/"); !strings.HasPrefix(got, "302") {
		report("address", "before it turned", got)
	}
	report("address", "after it turned", handshake(turns, turns))
}

// host returns a name that the resolver of command outside resolves to an address: at, cname or turn
// says how.
func host(how, address string) string {
	return how + "-" + hex.EncodeToString(netip.MustParseAddr(address).AsSlice()) + ".names.example"
}

// redirects follows redirects of an allowed site to hosts that the box may not reach, as most
// clients do.
func redirects() {
	for _, to := range []string{
		"http://127.0.0.1:1/secret", "http://169.254.169.254/latest/meta-data", "http://10.0.0.1/secret", "http://evil.example/secret", "http://203.0.113.7/secret",
		"http://host.agentbox.internal/secret", "http://198.18.0.1/secret",
	} {
		client := &http.Client{Timeout: timeLimit}
		res, err := client.Get("http://a.example/redirect?to=" + to)
		kind, effect := "flow", ""
		if err == nil {
			effect = res.Status
			res.Body.Close()
		}
		switch {
		case strings.Contains(to, "127.0.0.1"):
			kind = "none" // the box itself
		case strings.Contains(to, "evil.example"), strings.Contains(to, "host.agentbox"):
			kind = "dns" // they have no address
		}
		report(kind, "redirect to "+to, effect)
	}
}

// fetch returns the status and body, or the text of an error. It follows no redirects, so the answer
// is that of url.
func fetch(url string) string {
	client := &http.Client{
		Timeout:       timeLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.StatusCode, " ", string(b))
}

// datagrams sends UDP datagrams to names whose rules are for TCP, as rules without a protocol are.
func datagrams() {
	for _, to := range []string{"a.example:443", "a.example:53", "b.example:4789"} {
		effect := ""
		if c, err := net.Dial("udp", to); err == nil {
			_ = c.SetDeadline(time.Now().Add(timeLimit))
			_, _ = io.WriteString(c, "secret")
			if _, err = c.Read(make([]byte, 100)); !errors.Is(err, syscall.ECONNREFUSED) {
				effect = fmt.Sprint(err)
			}
			c.Close()
		}
		report("flow", "udp "+to, effect)
	}
}
