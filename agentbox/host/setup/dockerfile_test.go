package setup

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
)

// What cannot be told plainly is the whole context: an image that is made too often is no fault,
// one that is not made anew is.
func TestCopied(t *testing.T) {
	for file, want := range map[string]string{
		"FROM debian\nRUN apt-get update":               "",
		"COPY a b /to/":                                 "ctx/a ctx/b",
		"copy --chown=1:1 ./a/../b /to":                 "ctx/b",
		"COPY a \\\n  b \\\r\n  /to":                    "ctx/a ctx/b",
		"COPY ../../etc/passwd /to":                     "ctx/etc/passwd",
		"COPY --from=0 /a /b":                           "",
		"ADD https://host/x /x":                         "",
		"COPY . /to":                                    "ctx",
		"COPY *.txt /to":                                "ctx",
		"COPY $A /to":                                   "ctx",
		`COPY ["a b", "/to"]`:                           "ctx",
		"COPY <<EOF /to\ntext\nEOF":                     "ctx",
		"ONBUILD COPY a /b":                             "ctx",
		"RUN --mount=type=bind,source=a,target=/a true": "ctx",
		"COPY a":       "ctx",
		"RUN COPY a b": "",
	} {
		if got := strings.Join(copied([]byte(file), "ctx"), " "); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

// A Dockerfile is a stranger's: nothing that it copies is outside of the context, and reading it ends.
func FuzzCopied(f *testing.F) {
	for _, file := range []string{"COPY a b /c", "ADD --x=y ../a .", "COPY [", "RUN --mount x", "\\\n\\\n"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, p := range copied(file, "ctx") {
			if p != "ctx" && !strings.HasPrefix(p, "ctx/") || path.Clean(p) != p {
				t.Errorf("%q", p)
			}
		}
	})
}

// The key changes with all that the image is made from, and with nothing else.
func TestBuildKey(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	put("Dockerfile", "FROM scratch\n")
	b := config.Build{Dockerfile: "Dockerfile", Context: ".", Args: map[string]string{"A": "1", "B": "2"}}
	key := func() agentbox.Digest {
		t.Helper()
		d, err := buildKey(t.Context(), Request{Directory: root, Config: &config.Config{Root: root, Build: &b}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := key()
	put("other", "nothing copies it")
	if key() != before {
		t.Error("a file that is not copied makes another image")
	}
	seen := []agentbox.Digest{before}
	for name, change := range map[string]func(){
		"Dockerfile": func() { put("Dockerfile", "FROM debian\n") },
		"argument":   func() { b.Args["A"] = "3" },
		"target":     func() { b.Target = "dev" },
		"context":    func() { b.Context = "sub" },
	} {
		change()
		if now := key(); slices.Contains(seen, now) {
			t.Errorf("%s: the same image", name)
		} else {
			seen = append(seen, now)
		}
	}
	if err := os.Remove(filepath.Join(root, "Dockerfile")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "Dockerfile")); err != nil {
		t.Fatal(err)
	}
	if _, err := buildKey(t.Context(), Request{Config: &config.Config{Root: root, Build: &b}}); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a Dockerfile that is a link out of the repository: %v", err)
	}
}

// Files are told apart by names, contents and targets; a link is not followed.
// What is not there is said before an image is made that could build it.
func TestCheckDockerfile(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "Dockerfile"), []byte("FROM scratch\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]agentbox.Code{"Dockerfile": "", "none/Dockerfile": agentbox.Conflict, "../Dockerfile": agentbox.Conflict, ".": agentbox.Conflict} {
		if err := CheckDockerfile(Request{Config: &config.Config{Root: root, Build: &config.Build{Dockerfile: name}}}); agentbox.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddFile(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	sum := func(make func() error) string {
		t.Helper()
		if err := make(); err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		if err := addFile(&text{Builder: &all}, root, "f"); err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	if s := sum(func() error { return nil }); s != "" {
		t.Errorf("a file that is not there: %q", s)
	}
	file := sum(func() error { return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644) })
	link := sum(func() error {
		return os.Rename(func() string { os.Symlink("/etc/passwd", filepath.Join(dir, "l")); return filepath.Join(dir, "l") }(), filepath.Join(dir, "f"))
	})
	if !strings.HasSuffix(file, "\nx\n1\n") || !strings.HasSuffix(link, "\"/etc/passwd\"\n") {
		t.Errorf("%q, %q", file, link)
	}
}

// text is a hash that shows what it is of.
type text struct{ *strings.Builder }

func (*text) Sum(b []byte) []byte { return b }
func (*text) Size() int           { return 0 }
func (*text) BlockSize() int      { return 1 }
