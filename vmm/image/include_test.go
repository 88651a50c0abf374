package image

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/vmm/image/rootfs"
)

// tree writes files below dir; a name with a slash at its end is a directory, a text that begins
// with -> a symlink.
func tree(t *testing.T, dir string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		p := filepath.Join(dir, pairs[i])
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		target, isLink := strings.CutPrefix(pairs[i+1], "->")
		switch {
		case err != nil:
		case strings.HasSuffix(pairs[i], "/"):
			err = os.MkdirAll(p, 0o755)
		case isLink:
			err = os.Symlink(target, p)
		default:
			err = os.WriteFile(p, []byte(pairs[i+1]), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// testHome makes this process believe in a home directory of its own.
func testHome(t *testing.T) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "me")
	tree(t, home, "./", "")
	t.Setenv("HOME", home)
	return home
}

func readImage(t *testing.T, img Image) *rootfs.Tree {
	t.Helper()
	f, err := os.Open(img.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tr, err := rootfs.Read(t.Context(), f, rootfs.DefaultLimits, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestInclude(t *testing.T) {
	home := testHome(t)
	tree(t, home, "sdk/bin/tool", "#!/bin/sh\n", "sdk/lib/deep/", "", "sdk/current", "->bin/tool", "cache/a", "1")
	if err := os.Chmod(filepath.Join(home, "sdk/bin/tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(home, "sdk/bin/tool"), filepath.Join(home, "sdk/bin/other")); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2020, 2, 2, 2, 2, 2, 123, time.UTC)
	if err := os.Chtimes(filepath.Join(home, "cache/a"), when, when); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CACHE", filepath.Join(home, "cache"))
	s := newStore(t)
	base, r := ensureLayout(t, s, "x")
	r.Include = []Include{{From: "~/sdk", To: "/opt/sdk"}, {From: "${CACHE}", To: "~/.cache/tool"}, {From: "$CACHE/a", To: "/etc/one"}}
	img, err := s.Ensure(t.Context(), r, base.Digest, nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.Digest == base.Digest || img.Base != base.Digest || img.Pin() != base.Digest {
		t.Errorf("digest %s, base %s, pin %s over %s", img.Digest.Short(), img.Base.Short(), img.Pin().Short(), base.Digest.Short())
	}
	tr := readImage(t, img)
	for path, want := range map[string]struct {
		mode uint32
		uid  uint32
	}{
		"opt/sdk": {0o40755, 0}, "opt/sdk/bin/tool": {0o100755, 0}, "opt/sdk/lib/deep": {0o40755, 0}, "opt/sdk/current": {0o120777, 0},
		"home/agent/.cache": {0o40755, 1000}, "home/agent/.cache/tool": {0o40755, 1000}, "home/agent/.cache/tool/a": {0o100644, 1000},
		"etc/one": {0o100644, 0}, "etc/passwd": {0o100644, 0},
	} {
		ino := tr.Lookup(path, false)
		if ino == nil {
			t.Errorf("%s is not in the image", path)
			continue
		}
		if ino.Mode != want.mode || ino.UID != want.uid || ino.GID != want.uid {
			t.Errorf("%s is %o of %d:%d, want %o of %d", path, ino.Mode, ino.UID, ino.GID, want.mode, want.uid)
		}
	}
	if a, b := tr.Lookup("opt/sdk/bin/tool", false), tr.Lookup("opt/sdk/bin/other", false); a != b {
		t.Error("a hard link became two files")
	}
	if got := tr.Lookup("home/agent/.cache/tool/a", false).ModTime; !got.Equal(when) {
		t.Errorf("the time became %s", got)
	}
	checkIncludeKey(t, s, r, img, home)
}

// checkIncludeKey proves that an include is copied again when, and only when, something in it
// changed.
func checkIncludeKey(t *testing.T, s *Store, r Recipe, img Image, home string) {
	built := func() (agentbox.Digest, bool) {
		wrote := false
		got, err := s.Ensure(t.Context(), r, none, func(e agentbox.Event) { wrote = wrote || e.Detail == "hash" })
		if err != nil {
			t.Fatal(err)
		}
		return got.Digest, wrote
	}
	if d, wrote := built(); wrote || d != img.Digest {
		t.Errorf("nothing changed, but wrote=%v and %s is not %s", wrote, d.Short(), img.Digest.Short())
	}
	tree(t, home, "sdk/lib/deep/new", "x")
	if d, wrote := built(); !wrote || d == img.Digest {
		t.Error("a new file did not make a new image")
	}
}

func TestIncludeRefuses(t *testing.T) {
	home := testHome(t)
	tree(t, home, ".ssh/id", "secret", ".config/x/y", "secret", ".netrc", "secret", "code/x", "ok", "way", "->.ssh", "up", "->.")
	for from, say := range map[string]string{
		"~": "home directory", "$HOME": "home directory", "/": "home directory", filepath.Dir(home): "home directory", "~/up": "home directory",
		"~/.ssh": "credentials", "~/.ssh/id": "credentials", "~/.config/x": "credentials", "~/.netrc": "credentials", "~/way": "credentials",
		"~/code/../.ssh": "credentials", "/etc/passwd": "this host only", "/proc/self": "",
		"relative": "absolute", "$NOTSET_AT_ALL/x": "NOTSET_AT_ALL", "": "nothing",
	} {
		_, err := resolveIncludes(t.Context(), []Include{{From: from, To: "/opt/x"}}, Exclusions{})
		wantCode(t, err, agentbox.Invalid, say)
	}
	_, err := resolveIncludes(t.Context(), []Include{{From: "~/nothing", To: "/opt/x"}}, Exclusions{})
	wantCode(t, err, agentbox.NotFound, "nothing")
	for _, to := range []string{"", "opt", "/", "~", "/..", "~/.."} {
		if _, err := resolveIncludes(t.Context(), []Include{{From: "~/code", To: to}}, Exclusions{}); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("to %q: %v", to, err)
		}
	}
}

func TestIncludeSkipsCredentialsAndSpecialFiles(t *testing.T) {
	home := testHome(t)
	tree(t, home, ".cargo/bin/x", "x", ".cargo/credentials.toml", "secret")
	got, err := resolveIncludes(t.Context(), []Include{{From: "~/.cargo", To: "/opt/cargo"}}, Exclusions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got[0].files {
		names = append(names, f.rel)
	}
	if want := []string{"", "bin", "bin/x"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// Logins of agents and git directories stay here, wherever they lie below an included directory.
func TestIncludeSkipsLoginsAndGitDirectories(t *testing.T) {
	home := testHome(t)
	tree(t, home, "sdk/a", "a", "sdk/.git/config", "a password", "sdk/deep/repo/.git/config", "another", "sdk/submodule/.git", "gitdir: /",
		"sdk/claude/.credentials.json", "login", "sdk/gemini/oauth_creds.json", "login", "sdk/.codex/auth.json", "login", "sdk/pkg/auth.json", "a library's",
		"sdk/.netrc", "login", ".qwen/oauth_creds.json", "login", ".local/share/opencode/auth.json", "login", ".local/share/opencode/log/one", "said")
	for from, want := range map[string][]string{
		"~/sdk":          {"", "a", "claude", "deep", "deep/repo", "gemini", "pkg", "pkg/auth.json", "submodule", ".codex"},
		"~/.local/share": {""},
	} {
		got, err := resolveIncludes(t.Context(), []Include{{From: from, To: "/opt/sdk"}}, Exclusions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range got[0].files {
			names = append(names, f.rel)
		}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	}
	for _, from := range []string{"~/.qwen", "~/.local/share/opencode", "~/sdk/claude/.credentials.json", "~/sdk/.codex/auth.json"} {
		_, err := resolveIncludes(t.Context(), []Include{{From: from, To: "/opt/sdk"}}, Exclusions{})
		wantCode(t, err, agentbox.Invalid, "credentials")
	}
}

func TestIncludeChangedDuringCopy(t *testing.T) {
	home := testHome(t)
	tree(t, home, "d/a", "one")
	list, err := resolveIncludes(t.Context(), []Include{{From: "~/d", To: "/opt/d"}}, Exclusions{})
	if err != nil {
		t.Fatal(err)
	}
	tree(t, home, "d/a", "longer")
	s := newStore(t)
	base, r := ensureLayout(t, s, "x")
	_, err = s.ensureIncluded(t.Context(), base, r, list, nil)
	wantCode(t, err, agentbox.Conflict, "changed")
}

func TestGoVariables(t *testing.T) {
	t.Setenv("GOROOT", "")
	v := &variables{ctx: t.Context(), home: os.Getenv("HOME")}
	root, err := v.expand("$GOROOT")
	if agentbox.CodeOf(err) == agentbox.Missing {
		t.Skip("go is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "src", "fmt")); err != nil {
		t.Errorf("$GOROOT is %s: %v", root, err)
	}
}

// BenchmarkResolveInclude is what every use of a recipe with includes pays, changed or not.
func BenchmarkResolveInclude(b *testing.B) {
	list := []Include{{From: "$GOROOT", To: "/usr/local/go"}}
	for b.Loop() {
		got, err := resolveIncludes(b.Context(), list, Exclusions{})
		if err != nil {
			b.Skip(err)
		}
		got[0].fingerprint(sha256.New())
		b.ReportMetric(float64(len(got[0].files)), "files")
	}
}

// No way of writing it, and no approval, copies where agentbox keeps its keys.
func TestIncludeRefusesAgentboxHome(t *testing.T) {
	home := testHome(t)
	tree(t, home, "data/agentbox/boxes/b1/key", "secret", "data/agentbox/store.key", "secret", "data/other/x", "ok", "way", "->data", "deep", "->data/agentbox/boxes")
	if err := os.Link(filepath.Join(home, "data/agentbox/store.key"), filepath.Join(home, "data/other/linked")); err != nil {
		t.Fatal(err)
	}
	never := ExcludeBelow(filepath.Join(home, "data/agentbox"))
	for _, from := range []string{
		"~/data", "~/way", "~/deep", "~/data/agentbox", "~/data/./agentbox/", "~/data/other/../agentbox", "~/way/agentbox/boxes", "~/way/agentbox/boxes/b1",
		"~/data/agentbox/boxes/b1/key", "~/data/other", "/proc/self/root" + home + "/data", "$HOME/data",
	} {
		_, err := resolveIncludes(t.Context(), []Include{{From: from, To: "/opt/x"}}, never)
		wantCode(t, err, agentbox.Invalid, "keys of every box")
	}
	if _, err := resolveIncludes(t.Context(), []Include{{From: "~/data/other/x", To: "/opt/x"}}, never); err != nil {
		t.Error(err)
	}
}

func TestIncludeMatchesApproval(t *testing.T) {
	home := testHome(t)
	tree(t, home, "good/x", "ok", "other/x", "not meant", "way", "->good")
	real, err := Resolve(t.Context(), "$HOME/way")
	if err != nil || real != filepath.Join(home, "good") {
		t.Fatalf("%s, %v", real, err)
	}
	approved := []Include{{From: real, To: "/opt/x", Exact: true}}
	if _, err := resolveIncludes(t.Context(), approved, Exclusions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(home, "good")); err != nil {
		t.Fatal(err)
	}
	tree(t, home, "good", "->other") // as a checkout that swaps a directory for a link
	_, err = resolveIncludes(t.Context(), approved, Exclusions{})
	wantCode(t, err, agentbox.Conflict, "not what was approved")
}

// Files of two file systems can have the same inode number. They are not names of one file.
func TestHardLinksAcrossFileSystems(t *testing.T) {
	home := testHome(t)
	tree(t, home, "d/a", "one", "d/b", "two")
	for _, name := range []string{"a", "b"} {
		if err := os.Link(filepath.Join(home, "d", name), filepath.Join(home, "d", name+"2")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := resolveIncludes(t.Context(), []Include{{From: "~/d", To: "/opt/d"}}, Exclusions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range list[0].files { // as if b were mounted from elsewhere
		stat := *f.stat
		stat.Ino = 4711
		if strings.HasPrefix(f.rel, "b") {
			stat.Dev++
		}
		list[0].files[i].stat = &stat
	}
	s := newStore(t)
	base, r := ensureLayout(t, s, "x")
	img, err := s.ensureIncluded(t.Context(), base, r, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "one", "a2": "one", "b": "two", "b2": "two"} {
		if got := content(t, img, "opt/d/"+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A file that is written to while it is read would be half of one version and half of another.
func TestIncludeChangedDuringRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("one version"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := hostContent{path, info}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, []byte("another one"), 0o600), os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	wantCode(t, err, agentbox.Conflict, "changed")
}

// What became a pipe since it was seen is refused, and nobody waits for its other end.
func TestIncludeReplacedByPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err = hostContent{path, info}.Open()
	wantCode(t, err, agentbox.Conflict, "changed")
}
