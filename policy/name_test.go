package policy

import (
	"strings"
	"testing"
)

func TestCanonicalName(t *testing.T) {
	for in, want := range map[string]string{
		"example.com":            "example.com",
		"EXAMPLE.Com":            "example.com",
		"example.com.":           "example.com",
		"bücher.example":         "xn--bcher-kva.example",
		"BÜCHER.example.":        "xn--bcher-kva.example",
		"xn--bcher-kva.example":  "xn--bcher-kva.example",
		"ｅｘａｍｐｌｅ.com":            "example.com",
		"example。com":            "example.com",
		"_dmarc.example.com":     "_dmarc.example.com",
		"r3---sn-x.example.com":  "r3---sn-x.example.com",
		"localhost":              "localhost",
		"host.agentbox.internal": HostName,
	} {
		if got, err := CanonicalName(in); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
}

// Names that mean one thing to a rule and another to whoever resolves or prints them.
func TestInvalidNames(t *testing.T) {
	for _, in := range []string{
		"", ".", "..", "a..b", ".example.com", "example.com..", "example.com\x00.evil.example", "example.com\r\nHost: evil",
		"example.com\n", " example.com", "example.com%00", "example%2ecom", "example.com/evil", "user@example.com", "example.com:80",
		"example.com#evil", "example.com?x", "*.example.com", "[::1]", "127.0.0.1", "127.1", "0x7f.1", "0177.0.0.1", "2130706433",
		"0x7f000001", "example.0x1", "1.2.3.4.", "１２７.0.0.1", "127。0。0。1", "::1", "fe80::1%eth0", "a\\b", "\xff\xfe.com",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com", "xn--\x80.com", "a\u200b.com:1", "exa mple.com", "a\tb.com",
	} {
		if got, err := CanonicalName(in); err == nil {
			t.Errorf("%q became the name %q", in, got)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"example.com", "EXAMPLE.com.", "bücher.example", "127.1", "0x7f.1", "a\x00b", "xn--bcher-kva.example", "１２７.1", "allowed%2eexample", "a\r\nb", "allowed。example", "allowed.example.evil", "::ffff:127.0.0.1", "[::1]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := CanonicalName(s)
		if err != nil {
			return
		}
		if again, err := CanonicalName(name); err != nil || again != name {
			t.Errorf("%q becomes %q, which becomes %q, %v", s, name, again, err)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.HasSuffix(name, ".") || len(name) > maxName {
			t.Errorf("%q becomes %q", s, name)
		}
		r, err := ParseRule(name)
		if err != nil || r.allows(Flow{Proto: TCP, Name: name, Port: 443}) != yes || r.allows(Flow{Proto: TCP, Name: "evil" + name, Port: 443}) != no {
			t.Errorf("the rule %q: %+v, %v", name, r, err)
		}
	})
}
