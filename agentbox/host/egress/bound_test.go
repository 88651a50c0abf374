package egress

import (
	"os/exec"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
)

// The bound of a box denies what others allow, and allows nothing.
func TestBound(t *testing.T) {
	ps := newPolicies(t)
	ref := api.PolicyRef{BoxRef: api.BoxRef{Directory: t.TempDir()}}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", ref.Directory).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := ps.Change(t.Context(), api.ChangeRequest{PolicyRef: ref, Everywhere: true, List: "allow", Rules: []string{"one.example", "two.example"}}, nil); err != nil {
		t.Fatal(err)
	}
	for bound, want := range map[string][3]bool{
		"":                                    {true, true, false},
		`{"preset":"offline"}`:                {false, false, false},
		"allow: [one.example, other.example]": {true, false, false},
		"deny: two.example":                   {true, false, false},
	} {
		p, err := ps.inForce(t.Context(), Subject{Bound: bound})
		if err != nil {
			t.Fatal(err)
		}
		decide := policy.New(p.Spec, nil)
		for i, name := range []string{"one.example", "two.example", "other.example"} {
			if got := decide.Decide(policy.Flow{Proto: policy.TCP, Name: name, Port: 443}); got.Allow != want[i] {
				t.Errorf("%q: %s: %+v", bound, name, got)
			}
		}
	}
	if err := CheckBound("preset: wide"); agentbox.CodeOf(err) != agentbox.Invalid || CheckBound("") != nil {
		t.Errorf("%v", err)
	}
}
