package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepositoryIsReproducible(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	// git sets these for hooks. The caller's own repository must not leak in.
	t.Setenv("GIT_DIR", "/nonexistent")
	r := Repository{files: 30, size: 500, commits: 3}
	var heads []string
	for _, name := range []string{"a", "b"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := r.generate(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		heads = append(heads, gitOut(t, dir, "rev-parse", "HEAD"))
		if s := gitOut(t, dir, "status", "--porcelain"); s != "" {
			t.Errorf("not clean: %s", s)
		}
		if n := gitOut(t, dir, "rev-list", "--count", "HEAD"); n != "3" {
			t.Errorf("%s commits, want 3", n)
		}
		if n := len(strings.Fields(gitOut(t, dir, "ls-files"))); n != 30 {
			t.Errorf("%d files, want 30", n)
		}
		info, err := os.Stat(filepath.Join(dir, "part00", "file0007.txt"))
		if err != nil || info.Size() != 500 {
			t.Errorf("file 7: %v, %v", info, err)
		}
	}
	if heads[0] != heads[1] {
		t.Errorf("two runs made different commits: %s", heads)
	}
}

func gitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
