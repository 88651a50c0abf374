package remotes

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/workspace"
)

func checkout(t *testing.T) workspace.Repo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	repo, err := workspace.Describe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func remotesOf(t *testing.T, repo workspace.Repo) string {
	t.Helper()
	out, err := exec.Command("git", "-C", repo.Root, "remote").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestAddAndRemove(t *testing.T) {
	repo := checkout(t)
	r := Remotes{Home: home.Home{Dir: t.TempDir()}, Binary: "/usr/bin/agentbox", Log: slog.New(slog.DiscardHandler)}
	box := agentbox.Box{ID: agentbox.NewBoxID(), Name: "mine", Directory: repo.Root}
	name, err := r.Add(t.Context(), repo, box, nil)
	if err != nil || name != "mine" || remotesOf(t, repo) != "mine" {
		t.Fatalf("%q, %v", name, err)
	}
	r.Remove("", box) // it has none
	r.Remove("mine", agentbox.Box{ID: agentbox.NewBoxID(), Directory: repo.Root})
	if got := remotesOf(t, repo); got != "mine" {
		t.Errorf("the remote of another box was removed: %q", got)
	}
	r.Remove(name, box)
	if got := remotesOf(t, repo); got != "" {
		t.Errorf("%q is left", got)
	}
	if err := os.RemoveAll(repo.Root); err != nil {
		t.Fatal(err)
	}
	r.Remove(name, box) // its checkout is gone
	if _, err := os.Stat(repo.Root); err == nil {
		t.Error("a checkout was made")
	}
}

// A box of a checkout that cannot be written to is made all the same, and the user is told.
func TestAddToReadOnlyCheckout(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	repo := checkout(t)
	dir := filepath.Join(repo.Root, ".git")
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	output := ""
	r := Remotes{Home: home.Home{Dir: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}
	name, err := r.Add(t.Context(), repo, agentbox.Box{ID: agentbox.NewBoxID(), Name: "mine"}, func(e agentbox.Event) { output += e.Detail })
	if err != nil || name != "" || !strings.Contains(output, "no git remote") {
		t.Errorf("%q, %v, said %q", name, err, output)
	}
}
