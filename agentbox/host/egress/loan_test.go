package egress

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/project"
	"agentbox/policy"
	"agentbox/policy/secrets"
)

// newPolicies makes the policies of a home that has looked for its registries.
func newPolicies(t *testing.T) *Policies {
	t.Helper()
	h := home.Home{Dir: t.TempDir()}
	if err := h.Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Registries(), []byte(fmt.Sprintf(`{"looked":%q}`, time.Now().Format(time.RFC3339))), 0o600); err != nil {
		t.Fatal(err)
	}
	ps := New(Config{Home: h, Store: project.NewStore(h), Registries: project.NewRegistries(h.Registries()), Boxes: running(nil), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(ps.Close)
	return ps
}

func rule(t *testing.T, text string) policy.Rule {
	t.Helper()
	r, err := policy.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A task's box on another machine gets what its owner lends, and nothing of that machine's user: no
// secret, not even one of the same name, no rule that allows, and every rule that denies.
func TestLoanOnAnotherMachine(t *testing.T) {
	owner, worker := newPolicies(t), newPolicies(t)
	set := func(ps *Policies, name, from string) {
		s := project.Secret{Secret: policy.Secret{Name: name, Scope: []policy.Rule{rule(t, "https://api.example")}}, From: secrets.Reference{Kind: secrets.File, Target: from}}
		if err := ps.Store.SetSecret(s); err != nil {
			t.Fatal(err)
		}
	}
	value := t.TempDir() + "/value"
	set(owner, "TOKEN", value)
	if _, err := owner.Lend(t.Context(), "p", []string{"OTHER"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := owner.Lend(t.Context(), "p", []string{"TOKEN"}); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("it lends what has no value: %v", err)
	}
	if err := os.WriteFile(value, []byte("the-value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	loan, err := owner.Lend(t.Context(), "p", []string{"TOKEN"})
	if err != nil || strings.Contains(string(loan), "the-value") || strings.Contains(string(loan), value) {
		t.Fatalf("%s, %v", loan, err)
	}
	if v, err := owner.SecretValue(t.Context(), "p", "TOKEN"); v != "the-value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	set(worker, "TOKEN", "/its/own")
	set(worker, "MINE", "/its/own")
	allow := func(f *policy.File) error {
		f.Allow, f.Deny = []policy.Rule{rule(t, "mine.example")}, []policy.Rule{rule(t, "DELETE https://api.example")}
		return nil
	}
	if err := worker.Store.ChangeUser(project.Project{}, allow); err != nil {
		t.Fatal(err)
	}
	box := Subject{Project: "foreign:p", Seed: "s", Foreign: true, Loan: loan}
	got, err := worker.inForce(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Secrets; len(s) != 1 || !s["TOKEN"].Lent || s["TOKEN"].From != (secrets.Reference{}) {
		t.Errorf("%+v", s)
	}
	p := policy.New(got.Spec, nil)
	for request, want := range map[string]bool{"GET api.example": true, "DELETE api.example": false, "GET mine.example": false} {
		method, host, _ := strings.Cut(request, " ")
		if v := p.Decide(policy.Flow{Proto: policy.HTTP, Name: host, Port: 443, TLS: true, Method: method, Path: "/"}); v.Allow != want {
			t.Errorf("%s: %+v", request, v)
		}
	}
	if env := worker.Placeholders(t.Context(), box); len(env) != 1 || env["TOKEN"] != got.Spec.Secrets[0].Placeholder {
		t.Errorf("%v", env)
	}
	box.Loan = nil
	if env := worker.Placeholders(t.Context(), box); len(env) != 0 {
		t.Errorf("without a loan: %v", env)
	}
	box.Loan = []byte("{")
	if _, err := worker.inForce(t.Context(), box); err == nil {
		t.Error("a loan that cannot be read is in force")
	}
}
