package workspace

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:pw@host/x":                   "https://host/x",
		"https://ghp_token@host/x?y=a@b":           "https://host/x?y=a@b",
		"https://a@b:c@host/":                      "https://host/",
		`https://u:it's"secret@host/`:              "https://host/",
		"ssh://git:pw@host/x":                      "ssh://git@host/x",
		"git+ssh://git@host/x":                     "git+ssh://git@host/x",
		"git@host:x":                               "git@host:x",
		"/some/path@x":                             "/some/path@x",
		"clone: from https://u:p@h/x to http://t@": "clone: from https://h/x to http://",
		"foo::https://u:p@h/x":                     "foo::https://h/x",
		"https://host/@scope/pkg":                  "https://host/@scope/pkg",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("https://user:secret@host/x")
	f.Fuzz(func(t *testing.T, s string) {
		if once := redact(s); redact(once) != once && !strings.Contains(once, "://") {
			t.Errorf("%q: %q", s, once)
		}
	})
}

const secret = "s3cr3t"

func TestNoSecretIsCopied(t *testing.T) {
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "global"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	dir := t.TempDir()
	script := `set -e
	git config --global user.email me@example.com; git config --global core.autocrlf input; git config --global credential.helper store; git config --global http.extraHeader s3cr3t
	git init -q repo; cd repo; git config user.name me; echo a >a; git add a; git commit -qm a
	git remote add origin https://u:s3cr3t@host/x.git; git remote set-url --push origin https://s3cr3t@host/x.git
	git config credential.helper '!echo s3cr3t'; git config credential.https://s3cr3t@host.username u; git config http.extraheader 'Authorization: s3cr3t'
	git config http.https://host/.extraheader s3cr3t; git config url.https://u:s3cr3t@host/.insteadOf https://host/; git config url.https://mirror/.insteadOf https://up/
	git config http.proxy http://u:s3cr3t@proxy:1; git config remote.origin.proxy u:s3cr3t@proxy:2; git config http.cookieFile /s3cr3t; git config core.sshCommand 'ssh -i s3cr3t'; git config core.hooksPath /s3cr3t
	git config core.fsmonitor /s3cr3t; git config core.askPass /s3cr3t; git config include.path /s3cr3t; git config includeIf.gitdir:/.path /s3cr3t
	git config sendemail.smtpPass s3cr3t; git config github.token s3cr3t; git config user.signingKey s3cr3t; git config commit.gpgSign true
	git config git-town.github-token s3cr3t; git config git-town.bitbucket-app-password s3cr3t; git config gitlab.https://host.accessToken s3cr3t; git config gitcvs.dbPass s3cr3t
	git config branch.main.remote origin; git config submodule.x.url https://s3cr3t@host/x
	echo s3cr3t >.git/hooks/pre-commit; echo s3cr3t >.git/credentials; mkdir .git/git-crypt; echo s3cr3t >.git/git-crypt/key; echo s3cr3t >.git/key.pem
	echo "x branch y of https://u:s3cr3t@host/x" >.git/FETCH_HEAD; echo "0 0 t <t> 0 +0	clone: from https://u:s3cr3t@host/x" >>.git/logs/HEAD
	mkdir -p .git/worktrees/x; echo s3cr3t >.git/worktrees/x/y; printf '[remote "box"]\n\tagentbox = 1\n\turl = file:///agentbox/box\n\tuploadpack = s3cr3t\n' >>.git/config`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	repo, err := Describe(context.Background(), filepath.Join(dir, "repo"))
	if err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(dir, "copy")
	if _, err := Stage(context.Background(), repo, dst, Options{}); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dst, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			if data, err = os.ReadFile(path); strings.Contains(string(data), secret) {
				t.Errorf("%s has a secret: %s", path, data)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	config, _ := os.ReadFile(filepath.Join(dst, ".git/config"))
	for _, want := range []string{`url = "https://host/x.git"`, `email = "me@example.com"`, `autocrlf = "input"`, `insteadof = "https://up/"`, `denycurrentbranch = "updateInstead"`,
		`checkstat = "minimal"`, `proxy = "http://proxy:1"`, `proxy = "proxy:2"`} {
		if !strings.Contains(string(config), want) {
			t.Errorf("the configuration lacks %s:\n%s", want, config)
		}
	}
	for _, not := range []string{"agentbox", "gpgsign", "helper", "hookspath"} {
		if strings.Contains(string(config), not) {
			t.Errorf("the configuration has %s:\n%s", not, config)
		}
	}
}
