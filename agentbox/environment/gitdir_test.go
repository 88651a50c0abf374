package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
)

func TestGitDirectoriesAreNotCopied(t *testing.T) {
	f := openFiles(t)
	box, here := t.TempDir(), t.TempDir()
	for _, d := range []string{"/m/.git", "/m/sub/.GIT", "/m/sub/.git-not"} {
		os.MkdirAll(box+d, 0o755)
		os.WriteFile(box+d+"/config", []byte("x"), 0o644)
	}
	os.WriteFile(box+"/m/sub/gitfile", nil, 0o644)
	var mu sync.Mutex
	var left []string
	opts := CopyOptions{Skipped: func(path, why string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(why, "--git") {
			left = append(left, path)
		}
	}}
	if err := f.CopyFrom(t.Context(), box+"/m", here, opts); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/m/.git": false, "/m/sub/.GIT": false, "/m/sub/.git-not/config": true, "/m/sub/gitfile": true} {
		if _, err := os.Lstat(here + path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(left) != 2 {
		t.Errorf("what was left out: %q", left)
	}
	var out bytes.Buffer
	if err := f.TarFrom(t.Context(), box+"/m", &out, opts); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if inGit(h.Name) {
			t.Errorf("%s is in the stream", h.Name)
		}
	}
	opts.Git = true
	if err := f.CopyFrom(t.Context(), box+"/m", here, opts); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(here + "/m/.git/config"); err != nil {
		t.Error(err)
	}
}

func TestNoCopyIntoGitDirectory(t *testing.T) {
	f := openFiles(t)
	box, here := t.TempDir(), t.TempDir()
	os.MkdirAll(box+"/link", 0o755)
	os.WriteFile(box+"/link/config", []byte("evil"), 0o644)
	os.MkdirAll(box+"/.git", 0o755)
	os.MkdirAll(here+"/.git", 0o755)
	os.WriteFile(here+"/.git/config", []byte("mine"), 0o644)
	os.Symlink(".git", here+"/link") // as an earlier copy of a link would have left it
	for remote, local := range map[string]string{
		box + "/link/config":  here + "/.git/config",
		box + "/link/config ": here + "/.git/",
		box + "/link":         here,
		box + "/link/.":       here + "/link",
		box + "/link/config/": here + "/link/config",
		box + "/.git":         here + "/stolen",
		box + "/.git/.":       here,
		box + "/link ":        here + "/.Git/x",
	} {
		err := f.CopyFrom(t.Context(), strings.TrimRight(remote, " /"), local, CopyOptions{})
		if err == nil {
			t.Errorf("%s came to %s", remote, local)
		}
		if code := agentbox.CodeOf(err); code != agentbox.Invalid && code != agentbox.NotFound {
			t.Errorf("%s to %s: %v", remote, local, err)
		}
	}
	if data, _ := os.ReadFile(here + "/.git/config"); string(data) != "mine" {
		t.Errorf("the configuration is %q", data)
	}
	if err := f.TarFrom(t.Context(), box+"/.git", io.Discard, CopyOptions{}); err == nil {
		t.Error("a git directory came as a stream")
	}
}
