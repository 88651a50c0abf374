package policy

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// ParseFlow parses a URL, or HOST[:PORT], as the flow that it would be in a box, for people who ask
// what would be decided (policy check). Without a method, a URL of the web is for GET; without a
// port, it has the scheme's, and 443 without a scheme. Errors are one line for people.
func ParseFlow(s, method string) (Flow, error) {
	if !strings.Contains(s, "://") {
		if f, ok := parseHostPort(s); ok {
			return f, nil
		}
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return Flow{}, err
	}
	f := Flow{Proto: TCP, Port: usualPorts[u.Scheme]}
	switch u.Scheme {
	case "http", "ws", "https", "wss":
		f.Proto, f.TLS = HTTP, strings.HasSuffix(u.Scheme, "s")
	case "udp":
		f.Proto = UDP
	}
	if f.Name, f.Addr, err = CanonicalHost(u.Hostname()); err != nil {
		return f, err
	}
	if u.Port() != "" {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || n == 0 {
			return f, errors.New("a port is 1 to 65535")
		}
		f.Port = uint16(n)
	}
	if f.Proto == HTTP {
		f.request(u, method)
	}
	return f, nil
}

// usualPorts are the ports of schemes; for tcp and udp, which have none, the web's.
var usualPorts = map[string]uint16{"http": 80, "ws": 80, "https": 443, "wss": 443, "ssh": 22, "tcp": 443, "udp": 443}

// parseHostPort parses what is no URL as a rule, false when that is not about one place.
func parseHostPort(s string) (Flow, bool) {
	r, err := ParseRule(s)
	if err != nil || r.Path != "" || len(r.Methods) > 0 || r.Host == "*" || strings.HasPrefix(r.Host, "*.") {
		return Flow{}, false
	}
	f := Flow{Proto: TCP, Name: r.Host, Port: cmp.Or(r.From, 443)}
	if r.Prefix.IsSingleIP() {
		f.Addr = r.Prefix.Addr()
	}
	return f, f.Name != "" || f.Addr.IsValid()
}

func (f *Flow) request(u *url.URL, method string) {
	f.Path, f.Method = cmp.Or(u.EscapedPath(), "/"), cmp.Or(strings.ToUpper(method), "GET")
	if u.RawQuery != "" {
		f.Path += "?" + u.RawQuery
	}
}
