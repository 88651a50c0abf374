package caches

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
)

func ingredients(t *testing.T, root string, lockfiles ...string) Ingredients {
	t.Helper()
	i := Ingredients{Project: "p", Image: agentbox.Digest{1}, Arch: "amd64", User: "agent", Setup: []string{"make deps"}, Caches: []string{"~/.cache"}}
	i.SetEnv(map[string]string{"CI": "1"})
	if err := i.ReadLockfiles(root, lockfiles); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestKeyDependsOnEveryIngredient(t *testing.T) {
	root := t.TempDir()
	lock := filepath.Join(root, "go.sum")
	if err := os.WriteFile(lock, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	first := ingredients(t, root, "go.sum", "absent.lock")
	if again := ingredients(t, root, "absent.lock", "go.sum"); again.Key() != first.Key() {
		t.Error("equal ingredients have two keys")
	}
	seen := map[agentbox.Digest]string{first.Key(): "the first"}
	differ := func(what string, sameFamily bool, change func(*Ingredients)) {
		t.Helper()
		i := ingredients(t, root, "go.sum", "absent.lock")
		change(&i)
		if other, ok := seen[i.Key()]; ok {
			t.Errorf("%s has the key of %s", what, other)
		}
		seen[i.Key()] = what
		if (i.LookupKey() == first.LookupKey()) != sameFamily {
			t.Errorf("%s: same family is %v", what, !sameFamily)
		}
		if slices.Equal(i.Describe(), first.Describe()) {
			t.Errorf("%s: nobody is told why", what)
		}
	}
	differ("project", false, func(i *Ingredients) { i.Project = "q" })
	differ("branch", false, func(i *Ingredients) { i.Branch = "pr" })
	differ("image", false, func(i *Ingredients) { i.Image = agentbox.Digest{2} })
	differ("architecture", false, func(i *Ingredients) { i.Arch = "arm64" })
	differ("user", false, func(i *Ingredients) { i.User = "root" })
	differ("setup", false, func(i *Ingredients) { i.Setup = []string{"make", "deps"} })
	differ("caches", false, func(i *Ingredients) { i.Caches = nil })
	differ("environment", false, func(i *Ingredients) { i.SetEnv(map[string]string{"CI": "2"}) })
	differ("lockfile", true, func(i *Ingredients) { i.Lockfiles["go.sum"] = agentbox.Digest{9} })
	differ("lockfile that came", true, func(i *Ingredients) { i.Lockfiles["absent.lock"] = agentbox.Digest{9} })
	differ("another lockfile", false, func(i *Ingredients) { i.Lockfiles["more"] = agentbox.Digest{} })
	if strings.Contains(strings.Join(first.Describe(), "\n"), "CI 1") {
		t.Error("the value of a variable is shown")
	}
}

func TestLockfilesStayInRepository(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "../x", "dir"} {
		var i Ingredients
		if err := i.ReadLockfiles(root, []string{name}); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLockfileIsPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "go.sum"), 0o600); err != nil {
		t.Skip(err)
	}
	var in Ingredients
	if err := in.ReadLockfiles(dir, []string{"go.sum"}); agentbox.CodeOf(err) != agentbox.Invalid {
		t.Error(err)
	}
}
