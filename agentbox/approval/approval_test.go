package approval

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/policy"
	"agentbox/policy/registries"
	"agentbox/policy/secrets"
)

func newStore(t *testing.T) *Store {
	t.Helper()
	s := New(home.Home{Dir: t.TempDir()})
	s.system = filepath.Join(t.TempDir(), "none.yaml")
	return s
}

func rule(t *testing.T, s string) policy.Rule {
	t.Helper()
	r, err := policy.ParseRule(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhatWidensWaitsForAPerson(t *testing.T) {
	s, root := newStore(t), t.TempDir()
	file := filepath.Join(root, "p.yaml")
	review := func(wanted string, pending bool) Review {
		t.Helper()
		r, err := s.Review(root, wanted)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Adopt(r); err != nil || got != pending {
			t.Errorf("%s: pending %v, %v; the plan is %v", wanted, got, err, r.Plan)
		}
		return r
	}
	review("", false)
	review("balanced", false)
	review("open", true)
	review("strict", false) // narrower than what an empty approval means
	review("balanced", true)
	put(t, file, "preset: strict\nallow: [a.example]\n")
	first := review("p.yaml", true)
	if f, err := s.Approved(root); err != nil || f.Preset != policy.Strict || len(f.Allow) != 0 {
		t.Errorf("before approval %+v, %v is in force", f, err)
	}
	if err := s.Approve(root, first.Proposed); err != nil {
		t.Fatal(err)
	}
	review("p.yaml", false)
	put(t, file, "preset: strict\nallow: [a.example, b.example]\n")
	if r := review("p.yaml", true); r.Digest == first.Digest || len(r.Plan) != 1 || r.Plan[0].String() != "+ allow b.example" {
		t.Errorf("the plan is %v", r.Plan)
	}
	put(t, file, "preset: strict\n")
	review("p.yaml", false)
	put(t, file, "preset: strict\nallow: [a.example]\n")
	review("p.yaml", true) // what was given up is asked for again
	if roots, err := s.Repositories(); err != nil || len(roots) != 1 || roots[0] != root {
		t.Errorf("repositories %v, %v", roots, err)
	}
}

func TestAPolicyFileStaysInsideItsRepository(t *testing.T) {
	s, root := newStore(t), t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	put(t, outside, "preset: open\n")
	if err := os.Symlink(outside, filepath.Join(root, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(root, "bad.yaml"), "preset: strict\nalow: []\n")
	for wanted, want := range map[string]string{
		"link.yaml": "cannot be read", "missing.yaml": "cannot be read", ".": "not a regular file", "../x": "cannot be read",
		"bad.yaml": "bad.yaml:2: unknown key `alow`: did you mean `allow`?", "stirct": "cannot be read",
	} {
		_, err := s.Review(root, wanted)
		if err == nil || !strings.Contains(err.Error(), want) || agentbox.AsError(err).Hint == "" {
			t.Errorf("%s: %v", wanted, err)
		}
	}
	if _, err := s.Review(root, "stirct"); !strings.Contains(agentbox.AsError(err).Hint, "did you mean `strict`") {
		t.Errorf("hint %q", agentbox.AsError(err).Hint)
	}
}

func TestRulesOfOneRepositoryAreNoOthers(t *testing.T) {
	s := newStore(t)
	add := func(root, name string) {
		t.Helper()
		if err := s.ChangeUser(root, func(f *policy.File) error { f.Allow = append(f.Allow, rule(t, name)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	add("/a", "a.example")
	add("/b", "b.example")
	add("", "all.example")
	for root, want := range map[string]string{"/a": "a.example", "/b": "b.example", "": "all.example", "/c": ""} {
		f, err := s.User(root)
		got := ""
		for _, r := range f.Allow {
			got += r.String()
		}
		if err != nil || got != want {
			t.Errorf("%q has %q, %v", root, got, err)
		}
	}
}

func TestOrganisationsAreReadTogether(t *testing.T) {
	s := newStore(t)
	put(t, s.system, "preset: strict\n")
	put(t, s.names.Organisation(), "deny: [evil.example]\n")
	files, err := s.Organisation()
	if err != nil || len(files) != 2 || files[0].Preset != policy.Strict || len(files[1].Deny) != 1 {
		t.Errorf("%+v, %v", files, err)
	}
	put(t, s.system, "prest: strict\n")
	if _, err := s.Organisation(); err == nil {
		t.Error("a policy that cannot be read is taken for none")
	}
}

func TestSecretsHaveANarrowScope(t *testing.T) {
	s := newStore(t)
	secret := func(name, repository string, scope ...string) Secret {
		out := Secret{From: secrets.Reference{Kind: secrets.Env, Of: "V"}, Repository: repository, Secret: policy.Secret{Name: name}}
		for _, to := range scope {
			out.Scope = append(out.Scope, rule(t, to))
		}
		return out
	}
	for _, bad := range []Secret{
		secret("TOKEN", ""), secret("TO KEN", "", "a.example"), secret("", "", "a.example"), secret("TOKEN", "", "*"), secret("TOKEN", "", "10.0.0.0/8"), secret("TOKEN", "", "udp://a.example:1"),
	} {
		if err := s.SetSecret(bad); err == nil {
			t.Errorf("set %+v", bad)
		}
	}
	for _, good := range []Secret{
		secret("TOKEN", "", "all.example"), secret("TOKEN", "/a", "*.x.example", "a.example"), secret("OTHER", "/b", "b.example"), secret("TOKEN", "/a", "*.x.example", "new.example"),
	} {
		if err := s.SetSecret(good); err != nil {
			t.Error(err)
		}
	}
	list, err := s.For("/a")
	if err != nil || len(list) != 1 || list[0].Host() != "new.example" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := s.RemoveSecret("OTHER", "/a"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("another repository's secret: %v", err)
	}
	if _, err := s.RemoveSecret("TOKEN", "/a"); err != nil {
		t.Error(err)
	}
	if list, err := s.For("/a"); err != nil || len(list) != 1 || list[0].Host() != "all.example" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRegistriesAreAskedOnceAndThenBehindOnesBack(t *testing.T) {
	asked := 0
	r := NewRegistries(filepath.Join(t.TempDir(), "registries.json"))
	r.look = func(context.Context, registries.Machine) ([]registries.Found, bool) {
		asked++
		return []registries.Found{{Rule: rule(t, "registry"+strings.Repeat("x", asked)+".example"), From: "a tool"}}, true
	}
	var refresh func(context.Context) (bool, error)
	known := func() string {
		t.Helper()
		found, err := r.Known(t.Context(), nil, func(f func(context.Context) (bool, error)) { refresh = f })
		if err != nil {
			t.Fatal(err)
		}
		return found[len(found)-1].Rule.Host
	}
	if known() != "registryx.example" || known() != "registryx.example" || asked != 1 || refresh != nil {
		t.Fatalf("asked %d times", asked)
	}
	a, _ := r.read()
	if err := os.WriteFile(r.path, []byte(`{"looked":"`+time.Now().Add(-2*staleAfter).Format(time.RFC3339)+`","found":[{"rule":"`+a.Found[0].Rule.String()+`","from":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if known() != "registryx.example" || refresh == nil {
		t.Fatal("an old answer does not serve")
	}
	if changed, err := refresh(t.Context()); err != nil || !changed || known() != "registryxx.example" {
		t.Errorf("changed %v, %v, now %s", changed, err, known())
	}
}

// A tool that is too slow on a busy machine is asked again by whoever comes next, and takes nothing away meanwhile.
func TestRegistriesOfASlowToolAreNotForgotten(t *testing.T) {
	answers := [][]string{{"go.example"}, {"npm.example"}, {"go.example", "npm.example"}}
	r := NewRegistries(filepath.Join(t.TempDir(), "registries.json"))
	r.look = func(context.Context, registries.Machine) (found []registries.Found, answered bool) {
		for _, host := range answers[0] {
			found = append(found, registries.Found{Rule: rule(t, host), From: "a tool"})
		}
		answers = answers[1:]
		return found, len(answers) == 0
	}
	for i, want := range []string{"go.example", "go.example npm.example", "go.example npm.example"} {
		var refresh func(context.Context) (bool, error)
		if _, err := r.Known(t.Context(), nil, func(f func(context.Context) (bool, error)) { refresh = f }); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if refresh == nil {
				t.Fatalf("%d: nobody asks again", i)
			}
			if changed, err := refresh(t.Context()); err != nil || changed != (i == 1) {
				t.Errorf("%d: changed %v, %v", i, changed, err)
			}
		}
		a, _ := r.read()
		var hosts []string
		for _, f := range a.Found {
			hosts = append(hosts, f.Rule.Host)
		}
		slices.Sort(hosts)
		if got := strings.Join(hosts, " "); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if _, err := r.Known(t.Context(), nil, func(func(context.Context) (bool, error)) { t.Error("asked again although all have answered") }); err != nil {
		t.Fatal(err)
	}
}
