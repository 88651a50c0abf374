package netstack

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"agentbox/vmm/guest/protocol"
)

func TestCanonical(t *testing.T) {
	long := strings.Repeat("a", 63)
	for in, want := range map[string]string{
		"Example.ORG.":          "example.org",
		"example.org":           "example.org",
		"_srv.a-b.example":      "_srv.a-b.example",
		"xn--bcher-kva.example": "xn--bcher-kva.example",
		long + ".example":       long + ".example",
		"":                      "", ".": "", "..": "", "a..b": "", ".a": "", "a..": "",
		"a b": "", "a\x00b": "", "a\r\nb": "", "a%2eb": "", "a/b": "", "a@b": "", "*.example": "", "a\\.b": "",
		"bücher.example": "", "\u212a.example": "", "example。org": "",
		long + "a.example":              "",
		strings.Repeat("a.", 126) + "a": strings.Repeat("a.", 126) + "a",
		strings.Repeat("a.", 127) + "a": "",
		strings.Repeat("ab.", 100):      "",
	} {
		got, ok := canonical(in)
		if got != want && ok || ok != (want != "") {
			t.Errorf("%q is %q (%v), want %q", in, got, ok, want)
		}
	}
}

func newTestResolver(lookup func(Question) error) (*resolver, *policy) {
	p := &policy{lookup: lookup}
	return &resolver{names: newNames(maxNames), lookup: p.Lookup, attempts: newAttempts(p.Attempt)}, p
}

func TestBadMessages(t *testing.T) {
	two := func() []byte {
		q := dnsmessage.Question{Name: dnsmessage.MustNewName("a.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}
		b, err := (&dnsmessage.Message{Questions: []dnsmessage.Question{q, q}}).Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	chaos := question(t, "version.bind.", dnsmessage.TypeTXT)
	chaos[len(chaos)-1] = 3
	update := question(t, "a.example.", dnsmessage.TypeA)
	update[2] |= 5 << 3
	response := question(t, "a.example.", dnsmessage.TypeA)
	response[2] |= 0x80
	for _, c := range []struct {
		name    string
		message []byte
		want    dnsmessage.RCode // of the answer
		silent  bool
	}{
		{"nothing", nil, 0, true},
		{"a response", response, 0, true},
		{"something else", []byte("GET / HTTP/1.1\r\n"), 0, false},
		{"a long message", make([]byte, maxQuery+1), 0, true},
		{"two questions", two, dnsmessage.RCodeFormatError, false},
		{"no question", make([]byte, 12), dnsmessage.RCodeFormatError, false},
		{"half a question", question(t, "a.example.", dnsmessage.TypeA)[:18], dnsmessage.RCodeFormatError, false},
		{"an update", update, dnsmessage.RCodeNotImplemented, false},
		{"another class", chaos, dnsmessage.RCodeNameError, false},
		{"an impossible name", question(t, "a b.example.", dnsmessage.TypeA), dnsmessage.RCodeNameError, false},
		{"the root", question(t, ".", 2), dnsmessage.RCodeNameError, false},
	} {
		r, p := newTestResolver(func(q Question) error { t.Errorf("%s: the policy was asked for %v", c.name, q); return nil })
		answer := r.answer(t.Context(), c.message)
		r.attempts.close()
		if len(p.seen()) != 1 || p.seen()[0].Kind != KindDNS {
			t.Errorf("%s: reported as %v", c.name, p.seen())
		}
		if c.silent != (answer == nil) && c.name != "something else" {
			t.Errorf("%s: answered with %x", c.name, answer)
		}
		if answer != nil && c.want != 0 && parse(t, answer).RCode != c.want {
			t.Errorf("%s: answered with %v", c.name, parse(t, answer).RCode)
		}
	}
}

func TestNamesKeepAddresses(t *testing.T) {
	one, other := newNames(64), newNames(64)
	for i := range 64 {
		name := fmt.Sprintf("host%d.example", i)
		addr := one.addrOf(name)
		if !protocol.NameBlock.Contains(addr) || addr == protocol.GuestAddr || addr == protocol.GatewayAddr || one.nameOf(addr) != name {
			t.Errorf("%s has address %s, which is of %q", name, addr, one.nameOf(addr))
		}
		if again := one.addrOf(name); again != addr {
			t.Errorf("%s has address %s, then %s", name, addr, again)
		}
		if twin := other.addrOf(name); twin != addr {
			t.Errorf("%s has address %s in one stack and %s in another", name, addr, twin)
		}
	}
	first := one.addrOf("host0.example") // used last now
	one.addrOf("more.example")
	if one.nameOf(first) != "host0.example" || one.recent.Len() != 64 || len(one.byName) != 64 || len(one.byAddr) != 64 {
		t.Errorf("%d names are kept", one.recent.Len())
	}
	if addr := other.addrOf("host1.example"); one.nameOf(addr) != "" {
		t.Errorf("the name asked for the longest time ago is still there")
	}
}

// Two names on one address must not be mistaken for each other.
func TestNameCollision(t *testing.T) {
	n := newNames(maxNames)
	seen := map[netip.Addr]string{}
	for i := range 2000 {
		name := fmt.Sprintf("n%d.example", i)
		addr := n.addrOf(name)
		if old, ok := seen[addr]; ok {
			t.Fatalf("%s has the address of %s", name, old)
		}
		seen[addr] = name
	}
}

func FuzzDNS(f *testing.F) {
	f.Add(question(f, "allowed.example.", dnsmessage.TypeA))
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeTXT, 10, 252, dnsmessage.TypeALL} { // NULL, AXFR
		f.Add(question(f, "allowed.example.", kind))
	}
	for _, name := range []string{"ALLOWED.example.", "allowed%2eexample.", "b\xc3\xbccher.example.", "169.254.169.254.", "allowed.example.evil."} {
		f.Add(question(f, name, dnsmessage.TypeA))
	}
	f.Add(question(f, "7.1.18.198.in-addr.arpa.", dnsmessage.TypePTR))
	f.Add(question(f, strings.Repeat("c2VjcmV0.", 20)+"example.", dnsmessage.TypeTXT))
	f.Add(question(f, "\x00\r\n.example.", 10))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))                           // a name that points at itself
	f.Add([]byte("\x00\x07\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01\x01b\x00\x00\x01\x00\x01")) // two questions
	f.Add([]byte("\x00\x07\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"))                          // an answer
	f.Fuzz(func(t *testing.T, b []byte) {
		r, _ := newTestResolver(func(q Question) error {
			if c, ok := canonical(q.Name); !ok || c != q.Name {
				t.Errorf("the policy is asked for %q", q.Name)
			}
			return nil
		})
		defer r.attempts.close()
		answer := r.answer(context.Background(), b)
		if answer != nil && (len(answer) < 12 || string(answer[:2]) != string(b[:2])) {
			t.Errorf("%x is answered with %x", b, answer)
		}
	})
}
