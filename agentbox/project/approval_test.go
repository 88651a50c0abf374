package project

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
	s := NewStore(home.Home{Dir: t.TempDir()})
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

var app = Project{Name: "example.com/org/app"}

func TestOnlyWiderRequestsNeedApproval(t *testing.T) {
	s, root := newStore(t), t.TempDir()
	file := filepath.Join(root, "p.yaml")
	review := func(wanted string, pending bool) Review {
		t.Helper()
		r, err := s.Review(app, root, wanted, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, host := r.Pending(); got != pending || host {
			t.Errorf("%s: pending %v, %v; the plan is %v", wanted, got, host, r.Plan)
		}
		return r
	}
	review("", false)
	review("balanced", false)
	review("open", true)
	review("strict", false)
	review("balanced", false) // what every repository has needs nobody, whatever this one asked for before
	put(t, file, "preset: strict\nallow: [a.example]\ndeny: [bad.example]\n")
	first := review("p.yaml", true)
	if w, err := s.InForce(app, first.InForce); err != nil || w.Policy.Preset != policy.Strict || len(w.Policy.Allow) != 0 || len(w.Policy.Deny) != 1 {
		t.Errorf("before approval %+v, %v is in force", w, err)
	}
	if err := s.Approve(app, first.Proposed); err != nil {
		t.Fatal(err)
	}
	if r := review("p.yaml", false); r.InForce != first.Digest {
		t.Errorf("%s is in force, not %s", r.InForce, first.Digest)
	}
	// What a branch asks for beyond that is a plan, and the branch does not get what was approved
	// for another either.
	put(t, file, "preset: strict\nallow: [a.example, b.example]\n")
	more := review("p.yaml", true)
	if w, err := s.InForce(app, more.InForce); err != nil || len(w.Policy.Allow) != 0 {
		t.Errorf("%+v, %v is in force of what nobody approved", w, err)
	}
	if more.Digest == first.Digest || !slices.ContainsFunc(more.Plan, func(c policy.Change) bool { return c.String() == "+ allow b.example" }) {
		t.Errorf("the plan is %v", more.Plan)
	}
	put(t, file, "preset: strict\n")
	review("p.yaml", false)
	put(t, file, "preset: strict\nallow: [a.example]\ndeny: [bad.example]\n")
	review("p.yaml", false) // once per project and digest
	if r, err := s.Review(Project{Name: "example.com/org/other"}, root, "p.yaml", nil); err != nil || len(r.Plan) == 0 {
		t.Errorf("another project's approval counts: %v", err)
	}
}

func TestDocumentIncludesHostRequests(t *testing.T) {
	s, root := newStore(t), t.TempDir()
	review := func(asks ...Ask) Review {
		t.Helper()
		r, err := s.Review(app, root, "", asks)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	other, odd := Ask{"include", "/home/u/other"}, Ask{"include", "/home/u/a\nb\\n"}
	r := review(other, odd)
	if pending, host := r.Pending(); !pending || !host || agentbox.AsError(r.Unapproved()).Hint != "if you want that: agentbox policy approve "+r.Digest {
		t.Errorf("%+v: %v", r.Plan, r.Unapproved())
	}
	if err := s.Approve(app, r.Proposed); err != nil {
		t.Fatal(err)
	}
	for _, covered := range [][]Ask{{odd, other}, {other, other, odd}, {other}, {odd}, nil} {
		if pending, _ := review(covered...).Pending(); pending {
			t.Errorf("%v waits again", covered)
		}
	}
	for _, more := range [][]Ask{{other, {"include", "/home/u/other2"}}, {{"kernel", "/home/u/other"}}, {{"include", "/home/u/a"}}, {{"include", "/home/u/other\n#host kernel /k"}}} {
		if _, host := review(more...).Pending(); !host {
			t.Errorf("%v was approved by the way", more)
		}
	}
	// A file that is changed afterwards approves nothing: its name is the digest of what a person
	// saw.
	path := filepath.Join(s.dir(app), "approved", r.Digest+".yaml")
	if err := os.WriteFile(path, append([]byte(askPrefix+"kernel /k\n"), Request{}.encode("")...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, host := review(Ask{"kernel", "/k"}).Pending(); !host {
		t.Error("a changed file approves")
	}
}

// The author of a repository can make two documents that share the first 48 bits of their digests.
func TestApprovalNeedsTheFullDigest(t *testing.T) {
	s := newStore(t)
	req := Request{Host: []Ask{{"kernel", "/k"}}}
	digest := req.Digest()
	if len(digest) != 64 {
		t.Errorf("the digest is %q", digest)
	}
	// This is how earlier builds stored an approval.
	put(t, filepath.Join(s.dir(app), "approved", digest[:12]+".yaml"), string(req.encode(approvedComment)))
	if r, err := s.Review(app, t.TempDir(), "", req.Host); err != nil || len(r.Plan) == 0 {
		t.Errorf("a shortened digest approves: %+v, %v", r, err)
	}
	if granted, err := s.InForce(app, digest[:12]); err != nil || len(granted.Host) != 0 {
		t.Errorf("a shortened digest puts %+v in force: %v", granted, err)
	}
	if err := s.Approve(app, req); err != nil {
		t.Fatal(err)
	}
	if granted, err := s.InForce(app, digest); err != nil || !slices.Equal(granted.Host, req.Host) {
		t.Errorf("%+v is in force, %v", granted, err)
	}
}

func TestPolicyFileStaysInRepository(t *testing.T) {
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
		_, err := s.Review(app, root, wanted, nil)
		if err == nil || !strings.Contains(err.Error(), want) || agentbox.AsError(err).Hint == "" {
			t.Errorf("%s: %v", wanted, err)
		}
	}
	if _, err := s.Review(app, root, "stirct", nil); !strings.Contains(agentbox.AsError(err).Hint, "did you mean `strict`") {
		t.Errorf("hint %q", agentbox.AsError(err).Hint)
	}
}

func TestRulesArePerProject(t *testing.T) {
	s := newStore(t)
	add := func(root, name string) {
		t.Helper()
		if err := s.ChangeUser(Project{Name: root}, func(f *policy.File) error { f.Allow = append(f.Allow, rule(t, name)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	add("/a", "a.example")
	add("/b", "b.example")
	add("", "all.example")
	for root, want := range map[string]string{"/a": "a.example", "/b": "b.example", "": "all.example", "/c": ""} {
		f, err := s.User(Project{Name: root})
		got := ""
		for _, r := range f.Allow {
			got += r.String()
		}
		if err != nil || got != want {
			t.Errorf("%q has %q, %v", root, got, err)
		}
	}
}

func TestOrganisationPolicies(t *testing.T) {
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

func TestSecretScope(t *testing.T) {
	s := newStore(t)
	secret := func(name, repository string, scope ...string) Secret {
		out := Secret{From: secrets.Reference{Kind: secrets.Env, Target: "V"}, Project: repository, Secret: policy.Secret{Name: name}}
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
	list, err := s.SecretsFor(Project{Name: "/a"})
	if err != nil || len(list) != 1 || list[0].Host() != "new.example" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := s.RemoveSecret("OTHER", Project{Name: "/a"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("another repository's secret: %v", err)
	}
	if _, err := s.RemoveSecret("TOKEN", Project{Name: "/a"}); err != nil {
		t.Error(err)
	}
	if list, err := s.SecretsFor(Project{Name: "/a"}); err != nil || len(list) != 1 || list[0].Host() != "all.example" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRegistriesRefreshInBackground(t *testing.T) {
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
	if first, again := known(), known(); first != "registryx.example" || again != first || asked != 1 || refresh != nil {
		t.Fatalf("asked %d times", asked)
	}
	a, _ := r.read()
	if err := os.WriteFile(r.path, []byte(`{"looked":"`+time.Now().AddDate(1, 0, 0).Format(time.RFC3339)+`","found":[{"rule":"`+a.Found[0].Rule.String()+`","from":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	// Another process wrote that, and its clock was ahead.
	r.looked = time.Time{}
	if known() != "registryx.example" || refresh == nil {
		t.Fatal("an old answer does not serve, or for ever")
	}
	// A daemon that ends meanwhile has not found anything new, or it would tell its boxes, who
	// would ask again, for ever.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if changed, err := refresh(ended); err == nil || changed || known() != "registryx.example" {
		t.Errorf("cut short: changed %v, %v", changed, err)
	}
	asked = 1
	if changed, err := refresh(t.Context()); err != nil || !changed || known() != "registryxx.example" {
		t.Errorf("changed %v, %v, now %s", changed, err, known())
	}
}

// A tool that is too slow on a busy machine is asked again by whoever comes next, and takes nothing
// away meanwhile.
func TestSlowToolKeepsRegistries(t *testing.T) {
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

// The file of secrets may be edited by hand, in any order.
func TestProjectSecretHidesGlobal(t *testing.T) {
	s := newStore(t)
	put(t, s.names.Secrets(), `[{"name":"TOKEN","to":["https://api.example"],"from":"env:ALL"},{"name":"TOKEN","to":["https://api.example"],"from":"env:OWN","project":"example.com/app"}]`)
	list, err := s.SecretsFor(Project{Name: "example.com/app"})
	if err != nil || len(list) != 1 || list[0].AllProjects() {
		t.Errorf("%+v, %v", list, err)
	}
}
