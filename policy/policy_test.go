package policy

import (
	"net/netip"
	"strings"
	"testing"
)

func rules(t testing.TB, lines ...string) []Rule {
	t.Helper()
	var list []Rule
	for _, s := range lines {
		r, err := ParseRule(s)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		list = append(list, r)
	}
	return list
}

// flow reads "METHOD scheme://host:port/path", for tables; udp:// and dns:// set the protocol.
func flow(t *testing.T, s string) Flow {
	t.Helper()
	f := Flow{Proto: TCP}
	if m, rest, ok := strings.Cut(s, " "); ok {
		f.Method, s, f.Proto = m, rest, HTTP
	}
	if rest, ok := strings.CutPrefix(s, "dns://"); ok {
		return Flow{Proto: DNS, Name: rest}
	}
	if rest, ok := strings.CutPrefix(s, "udp://"); ok {
		f.Proto, s = UDP, rest
	}
	if i := strings.Index(s, "/"); i >= 0 {
		f.Path, s = s[i:], s[:i]
	}
	ap, err := netip.ParseAddrPort(s)
	if err == nil {
		f.Addr, f.Port = ap.Addr(), ap.Port()
		return f
	}
	r := rules(t, s)[0]
	f.Name, f.Port = r.Host, r.From
	return f
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  Spec
		yes   string // flows, separated by commas
		no    string
		opens string // allowed, and opened
	}{
		{name: "an empty policy", no: "example.com:443,dns://example.com,udp://example.com:53,192.0.2.1:443,GET example.com:443/"},
		{
			name: "a host", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "allowed.example")}}},
			yes: "allowed.example:443,allowed.example:80,dns://allowed.example,POST allowed.example:443/x",
			no:  "evilallowed.example:443,allowed.example.evil:443,sub.allowed.example:443,allowed.example:22,udp://allowed.example:443,192.0.2.1:443,dns://evilallowed.example,dns://example",
		},
		{
			name: "a wildcard", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "*.allowed.example:*")}}},
			yes: "a.allowed.example:443,a.b.allowed.example:22", no: "allowed.example:443,aallowed.example:443,a.allowed.example.evil:443",
		},
		{
			name: "everything", spec: Spec{Layers: []Layer{{Source: Preset, Allow: rules(t, "*")}}},
			yes: "a.example:1,udp://a.example:443,192.0.2.1:25,8.8.8.8:53,[2606:4700::1]:443",
			no:  "127.0.0.1:80,10.0.0.1:80,169.254.169.254:80,[::ffff:10.0.0.1]:80,[64:ff9b::7f00:1]:80,[2002:7f00:1::]:80,[2001::1]:80,[fe80::1]:80,0.0.0.0:80,host.agentbox.internal:80,dns://host.agentbox.internal",
		},
		{
			name: "deny wins", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "*")}, {Source: Repository, Deny: rules(t, "evil.example", "other.example:22")}}},
			yes: "a.example:443,other.example:443,dns://other.example", no: "evil.example:443,evil.example:8443,udp://evil.example:443,dns://evil.example,other.example:22",
		},
		{
			name: "methods and paths", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "GET,HEAD https://api.example/v1/**"), Deny: rules(t, "https://api.example/v1/secret/**")}}},
			yes: "GET api.example:443/v1/x/y,HEAD api.example:443/v1/,GET api.example:443/v1/x?q=/v1/secret/",
			no: "POST api.example:443/v1/x,GET api.example:443/v2/x,GET api.example:443/v1/secret/x,GET api.example:443/v1/../v2,GET api.example:443/v1/%2e%2e/v2,GET api.example:443/v1/%2f,GET api.example:443/v1//x,GET api.example:443/v1/a%00,GET api.example:80/v1/x," +
				"GET api.example:443/v1/x/%73ecret/../secret/x,GET api.example:443/v1/%73ecret/x",
			opens: "api.example:443",
		},
		{
			name: "a deny of a method", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "api.example"), Deny: rules(t, "DELETE api.example", "https://api.example/admin/*")}}},
			yes: "GET api.example:443/", no: "DELETE api.example:443/,DELETE api.example:8443/,GET api.example:443/admin/x,GET api.example:443/x//admin/x", opens: "api.example:443",
		},
		{
			name: "a bound", spec: Spec{Layers: []Layer{{Source: Organisation, Bound: true, Allow: rules(t, "*.corp.example", "GET public.example")}, {Source: User, Allow: rules(t, "*", "x.corp.example:22")}}},
			yes: "a.corp.example:443,GET public.example:443/", no: "other.example:443,a.corp.example:22,x.corp.example:22,POST public.example:443/", opens: "public.example:443",
		},
		{
			name: "addresses", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "192.0.2.0/24", "10.0.0.5:5432"), Private: rules(t, "10.0.0.6:5432")}}},
			yes: "192.0.2.9:443,10.0.0.6:5432,[::ffff:10.0.0.6]:5432", no: "10.0.0.5:5432,10.0.0.6:22,192.0.3.1:443",
		},
		{
			name: "a secret", spec: Spec{Layers: []Layer{{Source: User, Allow: rules(t, "api.example", "*.example:8443")}}, Secrets: []Secret{{Name: "TOKEN", Scope: rules(t, "POST https://api.example/v1/*")}}},
			yes: "api.example:80,a.example:8443", opens: "api.example:443",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(c.spec, nil)
			check := func(list string, allow, inside bool) {
				for s := range strings.SplitSeq(list, ",") {
					if list == "" {
						return
					}
					if v := p.Decide(flow(t, s)); v.Allow != allow || v.NeedsInspection != inside && flow(t, s).Port != 0 {
						t.Errorf("%s: %+v", s, v)
					}
				}
			}
			check(c.yes, true, false)
			check(c.no, false, false)
			check(c.opens, true, true)
		})
	}
}

// A name that is allowed and leads to an address that is not.
func TestDecideAddressesOfNames(t *testing.T) {
	own := netip.MustParseAddr("198.51.100.7")
	p := New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, "*"), Private: rules(t, "lan.example", "host.agentbox.internal:3142")}}},
		func(a netip.Addr) bool { return a == own })
	for _, c := range []struct {
		name, addr string
		port       uint16
		allow      bool
	}{
		{"a.example", "93.184.216.34", 443, true},
		{"a.example", "2606:4700::1111", 443, true},
		{"a.example", "203.0.113.80", 443, true},
		{"a.example", "127.0.0.1", 443, false},
		{"a.example", "10.1.2.3", 443, false},
		{"a.example", "172.16.0.1", 443, false},
		{"a.example", "192.168.1.1", 443, false},
		{"a.example", "100.64.0.1", 443, false},
		{"a.example", "169.254.169.254", 443, false},
		{"a.example", "0.0.0.0", 443, false},
		{"a.example", "255.255.255.255", 443, false},
		{"a.example", "224.0.0.1", 443, false},
		{"a.example", "::1", 443, false},
		{"a.example", "::", 443, false},
		{"a.example", "::ffff:127.0.0.1", 443, false},
		{"a.example", "64:ff9b::a00:1", 443, false},
		{"a.example", "2002:a00:1::1", 443, false},
		{"a.example", "2001:0:1::1", 443, false},
		{"a.example", "fd00::1", 443, false},
		{"a.example", "fe80::1%eth0", 443, false},
		{"a.example", "ff02::1", 443, false},
		{"a.example", "198.51.100.7", 443, false}, // the host's own
		{"lan.example", "10.1.2.3", 443, true},
		{"lan.example", "198.51.100.7", 443, true},
		{"lan.example", "169.254.169.254", 443, false},
		{"sub.lan.example", "10.1.2.3", 443, false},
		{HostName, "127.0.0.1", 3142, true},
		{HostName, "127.0.0.1", 22, false},
	} {
		v := p.Decide(Flow{Proto: TCP, Name: c.name, Addr: netip.MustParseAddr(c.addr), Port: c.port})
		if v.Allow != c.allow {
			t.Errorf("%s at %s port %d: %+v", c.name, c.addr, c.port, v)
		}
	}
}

func TestHints(t *testing.T) {
	p := New(Spec{Layers: []Layer{
		{Source: User, Allow: rules(t, "open.example", "GET https://api.example/v1/*"), Deny: rules(t, "mine.example:8080")},
		{Source: Organisation, Deny: rules(t, "never.example")},
	}}, nil)
	for _, c := range []struct {
		f    Flow
		want string
	}{
		{Flow{Proto: TCP, Name: "a.example", Port: 443}, "agentbox policy allow a.example"},
		{Flow{Proto: DNS, Name: "a.example"}, "agentbox policy allow a.example"},
		{Flow{Proto: TCP, Name: "a.example", Port: 22}, "agentbox policy allow a.example:22"},
		{Flow{Proto: UDP, Name: "a.example", Port: 443}, "agentbox policy allow udp://a.example:443"},
		{Flow{Proto: TCP, Addr: netip.MustParseAddr("2606::1"), Port: 25}, "agentbox policy allow [2606::1]:25"},
		{Flow{Proto: TCP, Name: "open.example", Addr: netip.MustParseAddr("10.0.0.1"), Port: 443}, "agentbox policy allow --private open.example"},
		{Flow{Proto: TCP, Name: HostName, Port: 3142}, "agentbox policy allow --private host.agentbox.internal:3142"},
		{Flow{Proto: DNS, Name: HostName}, "agentbox policy allow --private host.agentbox.internal:PORT"},
		{Flow{Proto: TCP, Name: "mine.example", Port: 8080}, "agentbox policy deny --remove 'mine.example:8080'"},
		{Flow{Proto: HTTP, Name: "api.example", Port: 443, Method: "POST", Path: "/v2/x?q=1"}, "agentbox policy allow 'POST https://api.example/v2/x'"},
		{Flow{Proto: HTTP, Name: "api.example", Port: 443, Method: "POST", Path: "/v2/it's"}, "agentbox policy allow api.example"},
		{Flow{Proto: TCP, Name: "never.example", Port: 443}, ""},
		{Flow{Proto: TCP, Addr: netip.MustParseAddr("169.254.169.254"), Port: 80}, ""},
	} {
		if v := p.Decide(c.f); v.Allow || v.Hint != c.want {
			t.Errorf("%+v: %+v, want the hint %q", c.f, v, c.want)
		}
	}
}

func TestRuleRoundTrip(t *testing.T) {
	for in, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com.": "example.com", "https://example.com": "example.com:443", "*": "*", "*:443": "*:443",
		"*:*": "*:*", "*.Example.com:*": "*.example.com:*", "get,post https://example.com/v1/*": "GET,POST example.com:443/v1/*",
		"udp://example.com:123": "udp://example.com:123", "udp://*": "udp://*", "ssh://git.example": "git.example:22", "192.0.2.7:5432": "[192.0.2.7]:5432",
		"192.0.2.0/24": "192.0.2.0/24", "192.0.2.9/24": "192.0.2.0/24", "[192.0.2.0/24]:22": "[192.0.2.0/24]:22", "::ffff:10.0.0.1": "10.0.0.1",
		"[2001:db8::1]:443": "[2001:db8::1]:443", "2001:db8::1": "2001:db8::1", "[2001:db8::1]/24": "[2001:db8::1]/24", "a.example:8000-8100": "a.example:8000-8100",
	} {
		r, err := ParseRule(in)
		if err != nil || r.String() != want {
			t.Errorf("%q is %q, %v; want %q", in, r, err, want)
			continue
		}
		if again, err := ParseRule(r.String()); err != nil || again.String() != want {
			t.Errorf("%q is read again as %q, %v", want, again, err)
		}
	}
	for _, in := range []string{
		"", " ", "*.", "*.*", "a.*.example", "example.com:", "example.com:0", "example.com:70000", "example.com:9-8", "ftp://example.com", "udp://example.com/x",
		"GET udp://example.com", "exa mple.com", "G@T example.com", "example.com/a/../b", "example.com/%41", "example.com/a?b", "example.com/***", "10.0.0.0/33", "*.10.0.0.1",
		"127.1", "user@example.com", "example.com\nother.example", "[::1", "[]:80", "example.com/a b",
	} {
		if r, err := ParseRule(in); err == nil {
			t.Errorf("%q is read as %q", in, r)
		}
	}
}

func TestPathPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/", "/", true}, {"/", "/x", false}, {"/a", "/a", true}, {"/a", "/a/", false}, {"/a/*", "/a/b", true}, {"/a/*", "/a/b/c", false}, {"/a/**", "/a/b/c", true},
		{"/a/**", "/a", false}, {"/*/x", "/b/x", true}, {"/*/x", "/b/c/x", false}, {"/**/x", "/b/c/x", true}, {"/a*b", "/ab", true}, {"/a*b", "/axxb", true}, {"/a/*", "/a/b?x=/", true},
		{"/a/*", "/a/%62", true}, {"/a/*", "/a/b%2fc", false}, {"/a/**", "/a/b%2fc", false}, {"/a/**", "/a/./b", false}, {"/a/**", "/a;x/b", false}, {"/a/**", "", false}, {"/a/**", "*", false},
	} {
		if got := matchPath(c.pattern, c.path); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.path, got)
		}
	}
	long := strings.Repeat("/a", 4000)
	if matchPath(strings.Repeat("/**/a", 60)+"b", long) { // takes no time worth noticing, or the test's whole time limit
		t.Error("matches")
	}
}
