package project

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitIn runs git as a person would, without the configuration of whoever runs the test.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkout makes a repository with one commit, and with that origin unless it is "".
func checkout(t *testing.T, dir, origin string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "init", "-q", "-b", "main")
	gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
	if origin != "" {
		gitIn(t, dir, "remote", "add", "origin", origin)
	}
	return dir
}

func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func expect(t *testing.T, dir, want string) {
	t.Helper()
	if p, err := Identify(t.Context(), dir); err != nil || p.Name != want {
		t.Errorf("%s is of the project %q, %v; want %q", dir, p.Name, err, want)
	}
}

func TestClonesAndWorktrees(t *testing.T) {
	dir := realDir(t)
	a := checkout(t, filepath.Join(dir, "a"), "https://user:secret@Example.com:443/Org/App.git")
	const name = "example.com/Org/App"
	expect(t, a, name)
	expect(t, checkout(t, filepath.Join(dir, "b"), "git@example.com:Org/App"), name)
	gitIn(t, a, "worktree", "add", "-q", "../tree")
	expect(t, filepath.Join(dir, "tree"), name)
	gitIn(t, a, "worktree", "move", "../tree", "../moved")
	expect(t, filepath.Join(dir, "moved"), name)
	if err := os.Symlink(a, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	expect(t, filepath.Join(dir, "link"), name)
}

func TestProjectWithoutOrigin(t *testing.T) {
	dir := realDir(t)
	a := checkout(t, filepath.Join(dir, "a"), "")
	expect(t, a, a)
	gitIn(t, a, "worktree", "add", "-q", "../tree")
	expect(t, filepath.Join(dir, "tree"), a)
	gitIn(t, dir, "clone", "-q", "a", "clone")
	expect(t, filepath.Join(dir, "clone"), a)
	gitIn(t, dir, "clone", "-q", "--bare", "a", "bare.git")
	gitIn(t, filepath.Join(dir, "bare.git"), "remote", "remove", "origin")
	gitIn(t, filepath.Join(dir, "bare.git"), "worktree", "add", "-q", "../of-bare")
	expect(t, filepath.Join(dir, "of-bare"), filepath.Join(dir, "bare.git"))
	plain := filepath.Join(dir, "plain")
	if err := os.Mkdir(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, plain, plain)
}

func TestSubmodule(t *testing.T) {
	dir := realDir(t)
	lib := checkout(t, filepath.Join(dir, "lib"), "")
	app := checkout(t, filepath.Join(dir, "app"), "https://example.com/app")
	gitIn(t, app, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "vendor/lib")
	expect(t, filepath.Join(app, "vendor/lib"), lib)
	gitIn(t, filepath.Join(app, "vendor/lib"), "remote", "set-url", "origin", "https://example.com/lib")
	expect(t, filepath.Join(app, "vendor/lib"), "example.com/lib")
}

// What others may have put into a directory must not make it the project of somebody else's
// repository.
func TestCheckoutCannotChangeProject(t *testing.T) {
	dir := realDir(t)
	victim := checkout(t, filepath.Join(dir, "victim"), "https://example.com/victim")
	gitIn(t, victim, "worktree", "add", "-q", "../tree")
	put := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, to, path string) {
		t.Helper()
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	const theirs = "[remote \"origin\"]\n\turl = https://example.com/victim\n"
	for what, make := range map[string]func(t *testing.T, m string){
		"a link to another git directory":    func(t *testing.T, m string) { link(t, filepath.Join(victim, ".git"), filepath.Join(m, ".git")) },
		"a pointer to another git directory": func(t *testing.T, m string) { put(t, filepath.Join(m, ".git"), "gitdir: "+victim+"/.git\n") },
		"a pointer to another's worktree": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git"), "gitdir: "+victim+"/.git/worktrees/tree\n")
		},
		"a git directory that borrows": func(t *testing.T, m string) { put(t, filepath.Join(m, ".git/commondir"), victim+"/.git\n") },
		"a configuration that is a link": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git/HEAD"), "")
			link(t, filepath.Join(victim, ".git/config"), filepath.Join(m, ".git/config"))
		},
		"a configuration in the work tree": func(t *testing.T, m string) {
			put(t, filepath.Join(m, "config"), theirs)
			put(t, filepath.Join(m, "HEAD"), "ref: refs/heads/main\n")
		},
		"an include that leads into the tree": func(t *testing.T, m string) {
			put(t, filepath.Join(m, "x"), theirs)
			put(t, filepath.Join(m, ".git/config"), "[include]\npath = ../x\n[includeIf \"gitdir:/\"]\npath = ../x\n")
		},
		"a configuration of the worktree": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git/config.worktree"), theirs)
			put(t, filepath.Join(m, ".git/config"), "[extensions]\nworktreeConfig = true\n")
		},
		"a remote of the old kind": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git/remotes/origin"), "URL: https://example.com/victim\n")
			put(t, filepath.Join(m, ".git/config"), "")
		},
		"a worktree of its own making": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git"), "gitdir: x/worktrees/y\n")
			put(t, filepath.Join(m, "x/worktrees/y/gitdir"), m+"/.git\n")
			put(t, filepath.Join(m, "x/worktrees/y/commondir"), victim+"/.git\n")
		},
		"a pipe for a configuration": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git/HEAD"), "")
			if out, err := exec.Command("mkfifo", filepath.Join(m, ".git/config")).CombinedOutput(); err != nil {
				t.Skipf("%v %s", err, out)
			}
		},
		"the remote of a box called origin": func(t *testing.T, m string) {
			put(t, filepath.Join(m, ".git/config"), "[remote \"origin\"]\n\tagentbox = 0123456789ab\n\turl = https://example.com/victim\n")
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := filepath.Join(realDir(t), "m")
			if err := os.Mkdir(m, 0o755); err != nil {
				t.Fatal(err)
			}
			make(t, m)
			expect(t, m, m)
		})
	}
}

func TestIDIsStableFileName(t *testing.T) {
	if id := (Project{Name: "example.com/org/app"}).ID(); id != "663a5a4e6672771bf2b5cf46c8274cb1" { // records are kept under it
		t.Errorf("id %s", id)
	}
}

// All of a request is about one project, and the checkout is read once for it; the next one sees what it is
// now. An error is no answer.
func TestRequestIdentifiesOnce(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, ".git", "config")
	origin := func(name string) {
		t.Helper()
		text := "[remote \"origin\"]\n\turl = https://example.com/" + name + "\n"
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(ctx context.Context, want string) {
		t.Helper()
		if p, err := Identify(ctx, dir); err != nil || p.Name != want {
			t.Errorf("%q, %v; want %s", p.Name, err, want)
		}
	}
	ctx := Remembering(t.Context())
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, make([]byte, maxConfig+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := Identify(ctx, dir); err == nil {
		t.Errorf("%v of a configuration that cannot be read", p)
	}
	origin("one")
	expect(ctx, "example.com/one")
	origin("two")
	expect(ctx, "example.com/one")
	if n := ctx.Value(memoryKey{}).(*memory).read; n != 2 { // one of them failed
		t.Errorf("the checkout was read %d times", n)
	}
	expect(Remembering(ctx), "example.com/two")
	expect(t.Context(), "example.com/two")
}
