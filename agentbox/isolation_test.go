package agentbox

import "testing"

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
