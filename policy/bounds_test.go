package policy

import (
	"net/netip"
	"testing"
)

// What a platform serves its machines is reached by no rule: not by name, not by address, not
// within a granted range.
func TestAttackMetadata(t *testing.T) {
	wide := []string{"*", "*:*", "10.0.0.0/8", "100.64.0.0/10", "168.63.129.0/24", "168.63.129.16", "fc00::/7", "0.0.0.0/0", "::/0", "metadata.google.internal"}
	p := New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, wide...), Private: rules(t, append(wide[2:], "*.internal", "a.example")...)}}}, nil)
	for _, address := range []string{
		"168.63.129.16", "100.100.100.200", "100.96.0.96", "192.0.0.192", "169.254.169.254", "169.254.42.42", "169.254.170.2", "169.254.0.23",
		"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200", "fe80::a9fe:a9fe",
		"::ffff:168.63.129.16", "::ffff:100.100.100.200",
	} {
		a := netip.MustParseAddr(address)
		for _, f := range []Flow{{Proto: TCP, Addr: a, Port: 80}, {Proto: TCP, Name: "a.example", Addr: a, Port: 80}, {Proto: UDP, Addr: a, Port: 53}} {
			if v := p.Decide(f); v.Allow || v.Hint != "" {
				t.Errorf("%+v: %+v", f, v)
			}
		}
	}
	for _, name := range []string{"metadata.google.internal", "metadata.goog", "metadata.platformequinix.com", "x.metadata.google.internal"} {
		if v := p.Decide(Flow{Proto: TCP, Name: name, Port: 80}); v.Allow || v.Hint != "" {
			t.Errorf("%s: %+v", name, v)
		}
		if v := p.Decide(Flow{Proto: DNS, Name: name}); v.Allow {
			t.Errorf("the question for %s: %+v", name, v)
		}
	}
	// Their neighbours are what their range is.
	for _, address := range []string{"168.63.129.17", "100.100.100.201", "fd20:ce::253", "10.0.0.1"} {
		if v := p.Decide(Flow{Proto: TCP, Addr: netip.MustParseAddr(address), Port: 80}); !v.Allow {
			t.Errorf("%s: %+v", address, v)
		}
	}
}

// A denial by address is about what is reached, whatever it was called on the way.
func TestAttackNamesOfDeniedAddresses(t *testing.T) {
	for _, c := range []struct {
		name, deny string
		f          Flow
		deniedBy   Source
	}{
		{"of the user", "203.0.113.7", Flow{Proto: TCP, Name: "a.example", Port: 443}, User},
		{"of the organisation", "203.0.113.0/24", Flow{Proto: TCP, Name: "a.example", Port: 443}, Organisation},
		{"one port", "[203.0.113.7]:443", Flow{Proto: TCP, Name: "a.example", Port: 443}, User},
		{"another port", "[203.0.113.7]:22", Flow{Proto: TCP, Name: "a.example", Port: 443}, ""},
		{"another address", "203.0.113.8", Flow{Proto: TCP, Name: "a.example", Port: 443}, ""},
		{"datagrams", "203.0.113.7", Flow{Proto: UDP, Name: "a.example", Port: 123}, User},
		{"a method: which address a request goes to is not known when it is decided", "POST 203.0.113.7", Flow{Proto: TCP, Name: "a.example", Port: 443}, User},
		{"as IPv4 in IPv6", "::ffff:203.0.113.0/120", Flow{Proto: TCP, Name: "a.example", Port: 443}, User},
		{"loopback by its other name", "127.0.0.0/8", Flow{Proto: TCP, Name: HostName, Addr: netip.MustParseAddr("127.0.0.1"), Port: 3000}, User},
	} {
		t.Run(c.name, func(t *testing.T) {
			deny := Layer{Source: c.deniedBy, Deny: rules(t, c.deny)}
			allow := Layer{Source: User, Allow: rules(t, "*", "a.example", "udp://a.example:123"), Private: rules(t, HostName+":3000")}
			p := New(Spec{Layers: []Layer{deny, allow}}, nil)
			if !c.f.Addr.IsValid() {
				if v := p.Decide(c.f); !v.Allow {
					t.Errorf("before its address is known: %+v", v)
				}
				c.f.Addr = netip.MustParseAddr("203.0.113.7")
			}
			if v := p.Decide(c.f); v.Allow != (c.deniedBy == "") || !v.Allow && v.Source != c.deniedBy {
				t.Errorf("%+v", v)
			}
		})
	}
	if v := New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, "203.0.113.7")}}}, nil).Decide(Flow{Proto: TCP, Name: "a.example", Addr: netip.MustParseAddr("203.0.113.7"), Port: 443}); v.Allow {
		t.Errorf("an address that is allowed allows a name: %+v", v)
	}
}

// A range that holds IPv4 addresses in IPv6 clothes and others is no range anybody means.
func TestMappedRanges(t *testing.T) {
	if r, err := ParseRule("::ffff:10.0.0.0/104"); err != nil || r.String() != "10.0.0.0/8" {
		t.Errorf("%v %v", r, err)
	}
	if r, err := ParseRule("::ffff:10.0.0.0/90"); err == nil {
		t.Errorf("%v", r)
	}
}

// A denied method cannot be looked for in datagrams, where HTTP/3 has it.
func TestAttackMethodsInDatagrams(t *testing.T) {
	p := New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, "udp://a.example:443", "udp://b.example:443"), Deny: rules(t, "POST a.example", "a.example/admin/**")}}}, nil)
	if v := p.Decide(Flow{Proto: UDP, Name: "a.example", Port: 443}); v.Allow {
		t.Errorf("%+v", v)
	}
	if v := p.Decide(Flow{Proto: UDP, Name: "b.example", Port: 443}); !v.Allow {
		t.Errorf("%+v", v)
	}
	// A denial that names the port of the web is about HTTP/3 there as well.
	p = New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, "*"), Deny: rules(t, "POST https://a.example", "https://b.example/admin/**")}}}, nil)
	for _, name := range []string{"a.example", "b.example"} {
		if v := p.Decide(Flow{Proto: UDP, Name: name, Port: 443}); v.Allow {
			t.Errorf("%s: %+v", name, v)
		}
		if v := p.Decide(Flow{Proto: UDP, Name: name, Port: 123}); !v.Allow {
			t.Errorf("%s, another port: %+v", name, v)
		}
	}
}

// requestRules are rules that allow requests, and nothing that is none.
var requestRules = []string{"GET *", "*/v1/**", "GET a.example", "a.example/v1/**", "GET 203.0.113.7", "GET *:*", "GET *.example:*"}

// A rule with a method or a path is about HTTP requests. Nobody can read them in datagrams.
func TestAttackDatagramsByRequestRule(t *testing.T) {
	for _, text := range requestRules {
		p := New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, text)}}}, nil)
		for _, f := range []Flow{
			{Proto: UDP, Name: "a.example", Port: 443}, {Proto: UDP, Name: "a.example", Port: 53}, {Proto: UDP, Addr: netip.MustParseAddr("203.0.113.7"), Port: 443},
			{Proto: ICMP, Addr: netip.MustParseAddr("203.0.113.7")},
		} {
			if v := p.Decide(f); v.Allow {
				t.Errorf("%q: %+v: %+v", text, f, v)
			}
		}
	}
}

// Without a port such a rule is about those of the web, as any other, and each connection is opened.
func TestRequestRuleIsTCPOnly(t *testing.T) {
	for _, text := range []string{"GET *", "*/v1/**"} {
		p := New(Spec{Layers: []Layer{{Source: User, Allow: rules(t, text)}}}, nil)
		for _, port := range []uint16{22, 25, 8443} {
			if v := p.Decide(Flow{Proto: TCP, Name: "a.example", Port: port}); v.Allow {
				t.Errorf("%q: port %d: %+v", text, port, v)
			}
		}
		for _, f := range []Flow{{Proto: TCP, Name: "a.example", Port: 443}, {Proto: TLS, Addr: netip.MustParseAddr("203.0.113.7"), Port: 443}} {
			if v := p.Decide(f); !v.Allow || !v.NeedsInspection {
				t.Errorf("%q: %+v: %+v", text, f, v)
			}
		}
		if v := p.Decide(Flow{Proto: HTTP, Name: "a.example", Port: 443, Method: "GET", Path: "/v1/x", TLS: true}); !v.Allow {
			t.Errorf("%q: a request: %+v", text, v)
		}
		if v := p.Decide(Flow{Proto: DNS, Name: "a.example"}); !v.Allow {
			t.Errorf("%q: a question: %+v", text, v)
		}
	}
}

func TestClassOfRules(t *testing.T) {
	for rule, want := range map[string]Class{
		"a.example": Public, "*": Public, "192.0.2.1": Public, "10.0.0.0/8": Private, "10.1.2.3:22": Private, "0.0.0.0/0": Public, "127.0.0.1": Private, "8.0.0.0/5": Public,
		HostName: Private, HostName + ":3000": Private, "169.254.169.254": Refused, "168.63.129.16": Refused, "168.63.129.0/24": Public, "100.100.100.200": Refused,
		"100.64.0.0/10": Private, "metadata.goog": Refused, "fd00:ec2::254": Refused, "fc00::/7": Private, "::/0": Public, "2606:4700::/32": Public,
	} {
		if got, _ := rules(t, rule)[0].Class(); got != want {
			t.Errorf("%s is %s, want %s", rule, got, want)
		}
	}
}

// A range with a port is no address with a path, which would deny nothing that anybody means.
func TestRangeWithPort(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8:5432": "[10.0.0.0/8]:5432", "[10.0.0.0/8]:5432": "[10.0.0.0/8]:5432", "192.0.2.0/24:*": "[192.0.2.0/24]:*",
		"udp://192.0.2.0/24:5000-5010": "udp://[192.0.2.0/24]:5000-5010", "192.0.2.0/24": "192.0.2.0/24",
	} {
		if r, err := ParseRule(text); err != nil || r.String() != want || r.NeedsInspection() {
			t.Errorf("%s: %s, %v", text, r, err)
		}
	}
	for _, text := range []string{"10.0.0.0/33:5432", "10.0.0.0/8:0", "10.0.0.0/8:", "2001:db8::/32:443"} {
		if r, err := ParseRule(text); err == nil {
			t.Errorf("%s: %s", text, r)
		}
	}
}
