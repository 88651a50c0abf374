package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// Rule covers some flows. It is one line of text, the same in files, on the command line, in hints
// and in the log:
//
//	[METHOD[,METHOD…] ][SCHEME://]HOST[:PORT[-PORT]][/PATH]
//
//	example.com                            that name, at the ports of the web, 80 and 443
//	*.example.com:*                        every name below it, but not itself, at any TCP port
//	git.example.com:22                     one port
//	udp://time.example.com:123             UDP; rules without it are about TCP
//	GET,HEAD https://example.com/v1/**     those methods and paths: * stays within a segment, ** does not
//	192.0.2.7:5432, 2001:db8::/32          an address, or a range of them
//	*                                      everything
//
// A rule with a method or a path needs the inside of TLS, so the gateway opens the connections that
// it may apply to.
//
// Rules come from ParseRule, which makes their fields canonical. String is its inverse, and rules
// are compared by it. The zero Rule covers nothing.
type Rule struct {
	UDP      bool
	Host     string       // canonical name, *.name, or * for everything; "" when Prefix is set
	Prefix   netip.Prefix // an address or a range
	From, To uint16       // ports, both included; 0,0 means the web's: 80 and 443
	Methods  []string     // upper case; none means all
	Path     string       // pattern beginning with /; "" means all
}

// ParseRule parses a rule. A scheme implies its port unless one is written. Errors are one line for
// people, without the rule's place in a file.
func ParseRule(s string) (Rule, error) {
	var r Rule
	if len(s) > 2048 {
		return r, errors.New("the rule is too long")
	}
	rest := strings.TrimSpace(s)
	if methods, after, ok := strings.Cut(rest, " "); ok {
		rest = after
		for m := range strings.SplitSeq(strings.ToUpper(methods), ",") {
			if !slices.Contains(methodNames, m) {
				return r, fmt.Errorf("%q is not an HTTP method", agentbox.Clip(m))
			}
			r.Methods = append(r.Methods, m)
		}
	}
	scheme, rest := cutScheme(strings.TrimSpace(rest))
	if err := r.scheme(scheme); err != nil {
		return r, err
	}
	rest, r.Path = cutPath(rest)
	if r.Path != "" {
		if !strings.HasPrefix(scheme, "http") && !strings.HasPrefix(scheme, "ws") && scheme != "" {
			return r, fmt.Errorf("%s has no paths", scheme)
		}
		if err := checkPattern(r.Path); err != nil {
			return r, err
		}
	}
	if r.UDP && len(r.Methods) > 0 {
		return r, errors.New("udp has no methods")
	}
	return r, r.hostPort(rest)
}

// cutScheme cuts off a scheme, in lower case; "" without one.
func cutScheme(s string) (scheme, rest string) {
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		return strings.ToLower(scheme), rest
	}
	return "", s
}

// scheme applies a scheme: its port, or UDP.
func (r *Rule) scheme(s string) error {
	switch port, known := usualPorts[s]; {
	case s == "" || s == "tcp":
	case s == "udp":
		r.UDP = true
	case known:
		r.From, r.To = port, port
	default:
		return fmt.Errorf("%q is not a scheme of rules: https, http, ssh, tcp or udp", agentbox.Clip(s))
	}
	return nil
}

// cutPath distinguishes a path from the length of a range of addresses.
func cutPath(s string) (host, path string) {
	if _, err := netip.ParsePrefix(s); err == nil {
		return s, ""
	}
	end := 0
	if strings.HasPrefix(s, "[") {
		end = strings.IndexByte(s, ']') + 1
	}
	i := strings.IndexByte(s[end:], '/')
	if i < 0 {
		return s, ""
	}
	bits, port, _ := strings.Cut(s[i+end:], ":")
	if _, err := netip.ParseAddr(s[:i+end]); err == nil && strings.Trim(bits, "/0123456789") == "" && strings.Trim(port, "0123456789*-") == "" {
		return s, "" // a range with a port; or meant as a range, and none: the host's reader says so
	}
	return s[:end+i], s[end+i:]
}

// hostPort parses what is left of a rule without methods, scheme and path.
func (r *Rule) hostPort(s string) error {
	host, port, err := splitPort(s)
	if err != nil {
		return err
	}
	if err := r.ports(port); err != nil {
		return err
	}
	if p, err := netip.ParsePrefix(host); err == nil {
		r.Prefix, err = unmapPrefix(p)
		return err
	}
	if host == "*" {
		r.Host = "*"
		return nil
	}
	base, wild := strings.CutPrefix(host, "*.")
	name, addr, err := CanonicalHost(base)
	switch {
	case err != nil:
		return err
	case addr.IsValid() && wild:
		return fmt.Errorf("%q: a wildcard is for names", agentbox.Clip(host))
	case addr.IsValid():
		r.Prefix = netip.PrefixFrom(addr, addr.BitLen())
	case wild:
		r.Host = "*." + name
	default:
		r.Host = name
	}
	return nil
}

// unmapPrefix converts a range of IPv4-mapped IPv6 addresses to IPv4, as flows have them.
func unmapPrefix(p netip.Prefix) (netip.Prefix, error) {
	const clothes = 96
	if !p.Addr().Is4In6() {
		return p.Masked(), nil
	}
	if p.Bits() < clothes {
		return p, fmt.Errorf("%q holds more than IPv4 addresses: leave out ::ffff: before the range", p)
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-clothes).Masked(), nil
}

// splitPort cuts off a port; an IPv6 address or a range with a port is in brackets.
func splitPort(s string) (host, port string, err error) {
	if in, ok := strings.CutPrefix(s, "["); ok {
		host, after, ok := strings.Cut(in, "]")
		if port, colon := strings.CutPrefix(after, ":"); ok && (colon && port != "" || after == "") {
			return host, port, nil
		}
		return "", "", fmt.Errorf("%q is not a host", agentbox.Clip(s))
	}
	if strings.Count(s, ":") != 1 {
		return s, "", nil
	}
	host, port, _ = strings.Cut(s, ":")
	if port == "" {
		return "", "", fmt.Errorf("%q has no port after the colon", agentbox.Clip(s))
	}
	return host, port, nil
}

// ports parses a port, a range, or * for all; "" keeps what the scheme implied.
func (r *Rule) ports(s string) error {
	switch s {
	case "":
		return nil
	case "*":
		r.From, r.To = 1, 65535
		return nil
	}
	first, last, two := strings.Cut(s, "-")
	if !two {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || from == 0 || to < from {
		return fmt.Errorf("%q is not a port: 1 to 65535, a range as 8000-8100, or *", agentbox.Clip(s))
	}
	r.From, r.To = uint16(from), uint16(to)
	return nil
}

// String is the canonical text of a rule: equal for rules with equal fields. A scheme is written as
// its port.
func (r Rule) String() string {
	var b strings.Builder
	if len(r.Methods) > 0 {
		b.WriteString(strings.Join(r.Methods, ",") + " ")
	}
	if r.UDP {
		b.WriteString("udp://")
	}
	host, port := r.Host, r.portText()
	if r.Prefix.IsValid() {
		host = r.Prefix.String()
		if r.Prefix.IsSingleIP() {
			host = r.Prefix.Addr().String()
		}
		if port != "" || r.Path != "" {
			host = "[" + host + "]"
		}
	}
	b.WriteString(host + port + r.Path)
	return b.String()
}

// portText is the port with its colon, "" for the ports of the web.
func (r Rule) portText() string {
	switch {
	case r.From == 0:
		return ""
	case r.From == 1 && r.To == 65535:
		return ":*"
	case r.From == r.To:
		return ":" + strconv.Itoa(int(r.From))
	}
	return fmt.Sprintf(":%d-%d", r.From, r.To)
}

// MarshalText makes rules text in JSON: String.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRule.
func (r *Rule) UnmarshalText(b []byte) error {
	v, err := ParseRule(string(b))
	*r = v
	return err
}

// methodNames are the methods that rules may name: of HTTP, WebDAV and related protocols. Requests
// may have others, which no such rule covers.
var methodNames = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "PROPFIND", "PROPPATCH", "MKCOL", "COPY",
	"MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE",
}

// NeedsInspection reports whether the rule can only be decided inside a connection.
func (r Rule) NeedsInspection() bool { return len(r.Methods) > 0 || r.Path != "" }
