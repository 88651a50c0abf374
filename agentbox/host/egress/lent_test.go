package egress

import (
	"os"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy/secrets"
)

// A host gets the secrets that were set for it, and none that boxes here, or another host, have under
// the same name.
func TestLentToHost(t *testing.T) {
	ps := newPolicies(t)
	dir := t.TempDir()
	set := func(name, value string, to *api.Lent) {
		t.Helper()
		file := dir + "/" + value
		if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		req := api.SecretRequest{Name: name, Everywhere: true, To: []string{"https://api.example"}, From: secrets.Reference{Kind: secrets.File, Target: file}, LentTo: to}
		if _, err := ps.SetSecret(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
	}
	set("TOKEN", "of-here", nil)
	set("TOKEN", "of-gpu", &api.Lent{Host: "gpu", Project: "p"})
	set("MINE", "mine", nil)
	for _, test := range []struct{ host, project, name, want string }{
		{"gpu", "p", "TOKEN", "of-gpu"},
		{"gpu", "", "TOKEN", ""},
		{"gpu", "q", "TOKEN", ""},
		{"gp", "u p", "TOKEN", ""},
		{"other", "p", "TOKEN", ""},
		{"gpu", "p", "MINE", ""},
		{"gpu", "", "MINE", ""},
	} {
		v, err := ps.LentValue(t.Context(), test.host, api.LentValue{Project: test.project, Name: test.name})
		if v != test.want || test.want == "" && agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("%+v: %q, %v", test, v, err)
		}
	}
	if hosts, err := ps.LentHosts(); err != nil || len(hosts) != 1 || hosts[0] != "gpu" {
		t.Errorf("%v, %v", hosts, err)
	}
	if v, err := ps.SecretValue(t.Context(), "p", "TOKEN"); v != "of-here" {
		t.Errorf("a box here has %q, %v", v, err)
	}
	remove := func(to api.Lent) error {
		_, err := ps.RemoveSecret(t.Context(), api.SecretRef{Name: "TOKEN", LentTo: &to}, nil)
		return err
	}
	if err := remove(api.Lent{Host: "other", Project: "p"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
	if err := remove(api.Lent{Host: "gpu", Project: "p"}); err != nil {
		t.Error(err)
	}
	if v, err := ps.SecretValue(t.Context(), "p", "TOKEN"); v != "of-here" {
		t.Errorf("a box here has %q, %v", v, err)
	}
}
