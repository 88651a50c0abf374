package agentbox

import "testing"

func TestCheckMachine(t *testing.T) {
	for _, good := range []string{"gpu", "me@gpu.example", "ssh://me@gpu:22", "me@[::1]"} {
		if err := CheckMachine(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "-oProxyCommand=touch x", "ssh://-oX=y", "ssh://me@-x", "me@-x", "gpu x", "gpu\nx", "$(touch x)", "a;b", "a'b"} {
		if err := CheckMachine(bad); CodeOf(err) != Invalid || AsError(err).Hint == "" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAlternativeText(t *testing.T) {
	for want, a := range map[string]Alternative{
		"better microvm: it does not work here: no KVM (load it)":          {Kind: MicroVM, Stronger: true, Faster: true, Missing: "no KVM", Hint: "load it"},
		"faster container: --isolation container, for code that you trust": {Kind: Container, Faster: true},
		"stronger gvisor: --isolation gvisor":                              {Kind: GVisor, Stronger: true},
	} {
		if got := a.Relation() + " " + a.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := LacksText(GVisor, nil); got != "" {
		t.Errorf("nothing is lacking: %q", got)
	}
}
