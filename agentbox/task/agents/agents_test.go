package agents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

func TestBuiltInProfilesAreWhole(t *testing.T) {
	for _, name := range Names(t.TempDir()) {
		p, err := Find(t.TempDir(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.Description == "" || (p.Package == "") == (p.Pip == "") || len(p.Hosts) == 0 || len(p.Secrets) == 0 || len(p.Prompt) == 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if got := Names(t.TempDir()); len(got) < 5 || !slices.Contains(got, "claude") {
		t.Errorf("%v", got)
	}
}

// A token that an agent's own login keeps is named by where it is below the user's home.
func TestTokensByReference(t *testing.T) {
	p, err := Find(t.TempDir(), "claude")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Secrets {
		if r, ok := s.Reference("/home/ada"); ok {
			got = append(got, s.Name+" "+r.String())
		}
	}
	if want := []string{"CLAUDE_CODE_OAUTH_TOKEN file:/home/ada/.claude/.credentials.json#claudeAiOauth.accessToken"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// aider is no program of npm: it gets an environment of its own from the Python index.
func TestAider(t *testing.T) {
	p, err := Find(t.TempDir(), "aider")
	if err != nil {
		t.Fatal(err)
	}
	needs, err := p.Needs()
	if err != nil {
		t.Fatal(err)
	}
	plan := toolchain.Resolve(needs, toolchain.Candidates{"python3": "3.11.2"})
	commands := plan.Commands()
	last := commands[len(commands)-1]
	if !slices.Contains(plan.Packages, "python3-venv") || last[len(last)-1] != "aider-chat" || !strings.Contains(last[2], "-m venv") || len(plan.Unmet) > 0 {
		t.Errorf("%+v runs %q", plan, commands)
	}
}

func TestTheUsersProfileIsFirst(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "claude.yaml"), []byte("program: mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Find(dir, "claude"); err != nil || p.Program != "mine" || p.Name != "claude" {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := Find(dir, "none"); agentbox.CodeOf(err) != agentbox.NotFound || !strings.Contains(agentbox.AsError(err).Hint, "claude|codex") {
		t.Errorf("%v", err)
	}
	if _, err := Find(dir, "../claude"); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("%v", err)
	}
}

func TestWork(t *testing.T) {
	p := Profile{Name: "x", Program: "x", Flags: []string{"--yes"}, Prompt: []string{"-p"}}
	if got, err := p.Work("fix it"); err != nil || !slices.Equal(got, []string{"x", "--yes", "-p", "fix it"}) {
		t.Errorf("%q %v", got, err)
	}
	for _, prompt := range []string{"", " \n", "--help"} {
		if got, err := p.Work(prompt); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %q", prompt, got)
		}
	}
	p.Prompt = nil
	if got, err := p.Work("fix it"); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Errorf("%q", got)
	}
}

func TestProfilesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "EOF",
		"program: ''\n":                        "program",
		"program: a b\n":                       "program",
		"program: a\npackge: x\n":              "packge",
		"program: a\npackage: git+ssh://x/y\n": "npm-package",
		"program: a\ntoolchain: {nod: '1'}\n":  "nod",
		"program: a\nsessions: [/etc]\n":       "sessions",
		"program: a\nsessions: [~/../x]\n":     "sessions",
		"program: a\nhosts: ['http://']\n":     "hosts",
		"program: a\nsecrets: [{name: A}]\n":   "secrets",
		"program: a\npip: 'x @ file:///y'\n":   "pip-package",
		"program: a\nsecrets: [{name: A, to: [https://a.example], from: 'file:/etc/shadow#a'}]\n":      "from",
		"program: a\nsecrets: [{name: A, to: [https://a.example], from: 'file:~/../b/x.json#a'}]\n":    "from",
		"program: a\nsecrets: [{name: A, to: [https://a.example], from: 'command:cat /etc/passwd'}]\n": "from",
		"program: a\nenv: {'A=B': x}\n":                           "env",
		"program: a\nflags: [" + strings.Repeat("a,", 65) + "]\n": "entries",
	} {
		if _, err := Parse(strings.NewReader(text), "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("program: a\nhosts: [https://example.com]\nsecrets: [{name: A, to: [https://example.com]}]\n")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := Parse(strings.NewReader(s), "x"); err == nil && strings.ContainsAny(p.Program, "/ \n") {
			t.Errorf("%q", p.Program)
		}
	})
}
