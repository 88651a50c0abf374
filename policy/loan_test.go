package policy

import (
	"encoding/json"
	"net/netip"
	"testing"
)

// composeLent is the policy of a box of a task with a loan, on a machine whose policy has one file.
func composeLent(t testing.TB, data []byte, machine File) (*Policy, error) {
	t.Helper()
	l, err := ParseLoan(data)
	if err != nil {
		return nil, err
	}
	spec := Compose(Sources{Organisation: l.Bounds, User: []File{machine}, UserPreset: machine.Preset, Repository: File{Allow: l.Hosts()}, Secrets: l.Secrets})
	return New(spec, func(netip.Addr) bool { return false }), nil
}

// A loan allows the hosts of its secrets and no more, and what either side denies is denied.
func TestLoan(t *testing.T) {
	secret := Secret{Name: "TOKEN", Scope: rules(t, "https://api.example"), Placeholder: "mine"}
	loan := func(bounds ...File) []byte {
		data, err := json.Marshal(Loan{Secrets: []Secret{secret}, Bounds: bounds})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		bounds  []File
		machine File
		host    string
		want    bool
	}{
		"a host of the secret":               {nil, File{}, "api.example", true},
		"another host":                       {nil, File{}, "other.example", false},
		"the machine's user denies it":       {nil, File{Deny: rules(t, "api.example")}, "api.example", false},
		"the machine is offline":             {nil, File{Preset: Offline}, "api.example", false},
		"the owner's user denies it":         {BoundsOf(Sources{User: []File{{Deny: rules(t, "api.example")}}}), File{}, "api.example", false},
		"the owner is offline":               {BoundsOf(Sources{UserPreset: Offline}), File{}, "api.example", false},
		"the owner's organisation":           {BoundsOf(Sources{Organisation: []File{{HasAllow: true}}}), File{}, "api.example", false},
		"the machine is open, the owner not": {BoundsOf(Sources{}), File{Preset: Open}, "other.example", false},
		"both are open":                      {BoundsOf(Sources{UserPreset: Open}), File{Preset: Open}, "other.example", true},
		"bounds that say to allow":           {[]File{{Allow: rules(t, "*")}}, File{}, "other.example", false},
	} {
		p, err := composeLent(t, loan(c.bounds...), c.machine)
		if err != nil {
			t.Fatal(err)
		}
		f := Flow{Proto: TCP, Name: c.host, Port: 443, TLS: true}
		if v := p.Decide(f); v.Allow != c.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
	p, _ := composeLent(t, loan(), File{})
	if s := p.Secrets(); len(s) != 1 || s[0].Placeholder != "" {
		t.Errorf("%+v", s)
	}
	private := Flow{Proto: TCP, Name: "api.example", Addr: netip.MustParseAddr("192.168.1.1"), Port: 443, TLS: true}
	p, _ = composeLent(t, loan(File{Private: rules(t, "api.example")}), File{})
	if v := p.Decide(private); v.Allow {
		t.Errorf("it reaches the machine's network: %+v", v)
	}
	for _, bad := range []string{`{`, `{"secrets":[{"name":"A","scope":["*"]}]}`, `{"secrets":[{"name":"A B","scope":["a.example"]}]}`, `{"secrets":[{"name":"A"}]}`, `{"bounds":[{"Preset":"wide"}]}`} {
		if _, err := ParseLoan([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// FuzzLoan gives any bytes as a loan: whatever it says, a box reaches no private address by it, and
// nothing that the machine denies.
func FuzzLoan(f *testing.F) {
	f.Add([]byte(`{"secrets":[{"name":"TOKEN","scope":["https://api.example"],"header":"Authorization","form":"bearer"}],"bounds":[{"Preset":"strict","Deny":["b.example"],"Allow":["*"],"HasAllow":true}]}`))
	f.Add([]byte(`{"bounds":[{"Allow":["*"],"Private":["*"],"Preset":"open"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := composeLent(t, data, File{Preset: Open, Deny: rules(t, "denied.example")})
		if err != nil {
			return
		}
		for _, flow := range []Flow{
			{Proto: TCP, Name: "denied.example", Port: 443, TLS: true},
			{Proto: TCP, Name: "a.example", Addr: netip.MustParseAddr("10.0.0.1"), Port: 443, TLS: true},
			{Proto: TCP, Addr: netip.MustParseAddr("127.0.0.1"), Port: 80},
		} {
			if v := p.Decide(flow); v.Allow {
				t.Errorf("%+v is allowed: %+v", flow, v)
			}
		}
	})
}
