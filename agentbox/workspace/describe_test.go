package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

func TestDescribe(t *testing.T) {
	isolateGit(t)
	for _, tc := range []struct {
		name, script, dir string
		want              workspace.Repo // paths are not compared; Commit "HEAD" stands for whatever git says
		sub               string
	}{
		{"branch", `base; git checkout -q -b fix/login`, "repo", workspace.Repo{Branch: "fix/login", Commit: "HEAD"}, ""},
		{"packed", `base; git pack-refs --all`, "repo", workspace.Repo{Branch: "main", Commit: "HEAD"}, ""},
		{"subdirectory", `base`, "repo/dir", workspace.Repo{Branch: "main", Commit: "HEAD"}, "dir"},
		{"unborn", `git init -q repo`, "repo", workspace.Repo{Branch: "main"}, ""},
		{"symbolic branch", `base; git symbolic-ref refs/heads/alias refs/heads/main; git symbolic-ref HEAD refs/heads/alias`, "repo",
			workspace.Repo{Branch: "main", Commit: "HEAD"}, ""},
		{"linked", `base; git worktree add -q -b w ../repo2`, "repo2", workspace.Repo{Branch: "w", Commit: "HEAD"}, ""},
		{"through a link", `base; ln -s repo/dir ../short`, "short", workspace.Repo{Branch: "main", Commit: "HEAD"}, "dir"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(build(t, tc.script), tc.dir)
			got, err := workspace.Describe(context.Background(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want.Commit == "HEAD" {
				tc.want.Commit = strings.TrimSpace(gitOut(t, dir, "rev-parse", "HEAD"))
			}
			if got.Branch != tc.want.Branch || got.Commit != tc.want.Commit || got.Detached || got.Subdir != tc.sub {
				t.Errorf("got %+v\nwant %+v in %q", got, tc.want, tc.sub)
			}
			if top := strings.TrimSpace(gitOut(t, dir, "rev-parse", "--show-toplevel")); got.Root != top {
				t.Errorf("root %s, want %s", got.Root, top)
			}
		})
	}
}

func TestDescribeDetached(t *testing.T) {
	isolateGit(t)
	dir := filepath.Join(build(t, `base; git checkout -q --detach`), "repo")
	got, err := workspace.Describe(context.Background(), dir)
	if err != nil || !got.Detached || got.Branch != got.Commit[:12] {
		t.Errorf("%+v %v", got, err)
	}
}

// Jujutsu moves a detached HEAD with every change; its checkout stays the same one.
func TestDescribeJujutsu(t *testing.T) {
	isolateGit(t)
	dir := filepath.Join(build(t, `base; mkdir .jj; echo '/*' >.jj/.gitignore; git checkout -q --detach`), "repo")
	first, err := workspace.Describe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	gitOut(t, dir, "commit", "--allow-empty", "-qm", "jj new")
	second, err := workspace.Describe(t.Context(), dir)
	if err != nil || !first.Detached || !second.Detached || first.Branch != "@" || second.Branch != "@" || first.Commit == second.Commit {
		t.Errorf("%+v\n%+v %v", first, second, err)
	}
}

func TestDescribeFromHook(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; git init -q ../other`)
	t.Setenv("GIT_DIR", filepath.Join(dir, "other", ".git"))
	got, err := workspace.Describe(context.Background(), filepath.Join(dir, "repo"))
	if err != nil || got.GitDir != filepath.Join(dir, "repo", ".git") {
		t.Errorf("%+v %v", got, err)
	}
}

func TestDescribeRefuses(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; git clone -q --bare . ../bare; mkdir ../plain; git init -q ../broken; rm ../broken/.git/HEAD`)
	for name, want := range map[string]string{"plain": "is not in a git repository", "bare": "without a work tree", "repo/.git": "without a work tree",
		"nowhere": "cannot read directory", "broken": "is not in a git repository"} {
		_, err := workspace.Describe(context.Background(), filepath.Join(dir, name))
		e := agentbox.AsError(err)
		if e == nil || e.Code != agentbox.Invalid || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "plain" && !strings.Contains(e.Hint, "git init") {
			t.Errorf("hint %q", e.Hint)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := workspace.Describe(context.Background(), dir); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("without git: %v", err)
	}
}

func BenchmarkDescribe(b *testing.B) {
	isolateGit(b)
	dir := filepath.Join(build(b, "base"), "repo")
	for b.Loop() {
		if _, err := workspace.Describe(context.Background(), dir); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStage100MB stages 100 MB in 5,000 files with their history, and removes the tree again.
func BenchmarkStage100MB(b *testing.B) {
	isolateGit(b)
	dir := b.TempDir()
	content := make([]byte, 20_000)
	for i := range 5000 {
		sub := filepath.Join(dir, "repo", "d"+string(rune('a'+i%25)), "e"+string(rune('a'+i/25%20)))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range content { // not compressible at a glance, different in every file
			content[j] = byte((i*2654435761 + j*j*40503 + j>>3) >> 5)
		}
		if err := os.WriteFile(filepath.Join(sub, "f"+string(rune('0'+i%10))+filepath.Base(sub)+string(rune('A'+i/500))), content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	gitOut(b, filepath.Join(dir, "repo"), "init", "-q")
	gitOut(b, filepath.Join(dir, "repo"), "add", ".")
	gitOut(b, filepath.Join(dir, "repo"), "-c", "user.name=t", "-c", "user.email=t", "commit", "-qm", "all")
	gitOut(b, filepath.Join(dir, "repo"), "gc", "-q")
	repo, near := describe(b, filepath.Join(dir, "repo")), filepath.Join(dir, "near")
	for b.Loop() {
		_, stats, err := stageTemp(repo, near)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(stats.Files), "files")
	}
	if err := workspace.RemoveTemp(near); err != nil {
		b.Fatal(err)
	}
}
