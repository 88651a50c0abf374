package workspace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"

	"golang.org/x/sys/unix"
)

func describe(t testing.TB, dir string) workspace.Repo {
	t.Helper()
	repo, err := workspace.Describe(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func TestModesTimesAndHoles(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; chmod 755 a.txt; chmod 640 dir/b.txt; chmod 750 dir; touch -d '2001-02-03 04:05:06.789' run.sh; ln -s a.txt l; touch -hd 2002-01-01 l
		truncate -s 64M hole; printf end >>hole; printf 'start' | dd of=hole conv=notrunc status=none; chmod 4755 other/o.txt`)
	src, dst := filepath.Join(dir, "repo"), filepath.Join(dir, "copy")
	stage(t, src, dst, workspace.Options{})
	for _, name := range []string{"a.txt", "dir", "dir/b.txt", "run.sh", "l", "hole"} {
		want, err1 := os.Lstat(filepath.Join(src, name))
		got, err2 := os.Lstat(filepath.Join(dst, name))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got.Mode() != want.Mode() || !got.ModTime().Equal(want.ModTime()) || got.Size() != want.Size() && !want.IsDir() {
			t.Errorf("%s: %v %v %d, want %v %v %d", name, got.Mode(), got.ModTime(), got.Size(), want.Mode(), want.ModTime(), want.Size())
		}
	}
	if fi, err := os.Stat(filepath.Join(dst, "other/o.txt")); err != nil || fi.Mode()&os.ModeSetuid != 0 {
		t.Errorf("a set-uid bit was copied: %v %v", fi, err)
	}
	want, _ := os.ReadFile(filepath.Join(src, "hole"))
	got, _ := os.ReadFile(filepath.Join(dst, "hole"))
	if !bytes.Equal(want, got) {
		t.Error("a sparse file has other content in the copy")
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dst, "hole"), &st); err != nil || st.Blocks*512 > 8<<20 {
		t.Errorf("holes were filled: %d blocks, %v", st.Blocks, err)
	}
}

func TestSpecialFilesAreSkipped(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; rm a.txt; mkfifo a.txt`)
	stats := stage(t, filepath.Join(dir, "repo"), filepath.Join(dir, "copy"), workspace.Options{})
	if len(stats.Notes) != 1 || !strings.Contains(stats.Notes[0], `"a.txt" is left out`) {
		t.Errorf("notes %q", stats.Notes)
	}
}

func TestOtherWorktreesAreNotCopied(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; git worktree add -q trees/other -b other`)
	stats := stage(t, filepath.Join(dir, "repo"), filepath.Join(dir, "copy"), workspace.Options{})
	if len(stats.Notes) != 1 || !strings.Contains(stats.Notes[0], "another work tree") {
		t.Errorf("notes %q", stats.Notes)
	}
	if _, err := os.Stat(filepath.Join(dir, "copy/trees/other/a.txt")); err == nil {
		t.Error("the other work tree was copied")
	}
}

func TestUnreadableFileIsNamed(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root can read everything")
	}
	isolateGit(t)
	dir := build(t, `base; chmod 000 dir/b.txt`)
	dst := filepath.Join(dir, "copy")
	_, err := workspace.Stage(context.Background(), describe(t, filepath.Join(dir, "repo")), dst, workspace.Options{})
	e := agentbox.AsError(err)
	if e == nil || e.Code != agentbox.Missing || !strings.Contains(e.Message, "dir/b.txt") || e.Hint == "" {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(dst); err == nil {
		t.Error("a failed copy was left behind")
	}
}

func TestDestinationMustBeEmpty(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; mkdir ../full ../empty; echo x >../full/x`)
	repo := describe(t, filepath.Join(dir, "repo"))
	if _, err := workspace.Stage(context.Background(), repo, filepath.Join(dir, "full"), workspace.Options{}); err == nil {
		t.Error("staged over files")
	}
	if _, err := os.Stat(filepath.Join(dir, "full/x")); err != nil {
		t.Error("what was there is gone")
	}
	if _, err := workspace.Stage(context.Background(), repo, filepath.Join(dir, "empty"), workspace.Options{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := workspace.Stage(ctx, repo, filepath.Join(dir, "cancelled"), workspace.Options{}); err == nil {
		t.Error("staged after being cancelled")
	}
	if _, err := os.Lstat(filepath.Join(dir, "cancelled")); err == nil {
		t.Error("a cancelled copy was left behind")
	}
}

func TestCopyInsideTheWorkTree(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; mkdir state`)
	stats := stage(t, filepath.Join(dir, "repo"), filepath.Join(dir, "repo/state/copy"), workspace.Options{})
	if stats.Files != 4 {
		t.Errorf("%d files, want 4: the copy was copied", stats.Files)
	}
}

func TestOriginalIsOnlyRead(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; echo x >>a.txt; echo y >u`)
	src := filepath.Join(dir, "repo")
	before := fingerprint(t, src)
	stage(t, src, filepath.Join(dir, "copy"), workspace.Options{})
	if after := fingerprint(t, src); !slices.Equal(before, after) {
		t.Errorf("before %q\nafter %q", before, after)
	}
}

// fingerprint is every path with its times, of change too.
func fingerprint(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		all = append(all, path+time.Unix(st.Mtim.Unix()).String()+time.Unix(st.Ctim.Unix()).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// While somebody edits, commits and repacks, every copy must be whole: no missing object, no
// half-written file.
func TestCopyDuringChanges(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; i=0; while [ $i -lt 50 ]; do echo $i >f$i; i=$((i+1)); done; git add .; git commit -qm many`)
	worker := exec.Command("sh", "-c", prelude+`cd repo; i=1000; while [ ! -e ../stop ]; do i=$((i+1)); echo $i >f$((i%50)); git add .; git commit -qm $i
		git branch -f b$((i%5)); git pack-refs --all; git repack -qad; done`)
	worker.Dir = dir
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(filepath.Join(dir, "stop"), nil, 0o644); err != nil {
			t.Error(err)
		}
		if err := worker.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 8 {
		dst := filepath.Join(dir, fmt.Sprint("copy", i))
		stage(t, filepath.Join(dir, "repo"), dst, workspace.Options{})
		if out := gitOut(t, dst, "fsck", "--no-dangling", "--no-progress"); out != "" && !strings.HasPrefix(out, "notice") {
			t.Fatalf("git fsck: %s", out)
		}
		if out := gitOut(t, dst, "log", "--oneline", "--all", "-n1"); strings.Contains(out, "fatal") {
			t.Fatalf("git log: %s", out)
		}
		if out := gitOut(t, dst, "diff", "--cached"); strings.Contains(out, "fatal") || strings.Contains(out, "error") {
			t.Fatalf("git diff --cached: %s", out)
		}
	}
}

// stageTemp stages a tree that is read once.
func stageTemp(repo workspace.Repo, near string) (string, workspace.Stats, error) {
	return source.Checkout(repo).ApplyTemp(context.Background(), near, false)
}

func TestStageTemp(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base`)
	near := filepath.Join(dir, "near")
	repo := describe(t, filepath.Join(dir, "repo"))
	var last string
	for range 2 { // the second finds what the first left, as after a crash
		tree, stats, err := stageTemp(repo, near)
		if err != nil || stats.Files != 4 {
			t.Fatal(stats, err)
		}
		if out := gitOut(t, tree, "status", "--porcelain"); out != "" {
			t.Error(out)
		}
		last = tree
	}
	for range 2 {
		if err := workspace.RemoveTemp(near); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{near, last} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was left behind", path)
		}
	}
}

func TestStageLimit(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; head -c 100000 /dev/zero >large`)
	repo, dst := describe(t, filepath.Join(dir, "repo")), t.TempDir()
	if _, err := workspace.Stage(context.Background(), repo, dst, workspace.Options{Limit: 100000}); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("a copy larger than its limit: %v", err)
	}
	if left, err := os.ReadDir(dst); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := workspace.Stage(context.Background(), repo, dst, workspace.Options{Limit: 10 << 20}); err != nil {
		t.Errorf("a copy within its limit: %v", err)
	}
}

func TestReadOnlyDirectoriesCanBeRemoved(t *testing.T) {
	isolateGit(t)
	dir := build(t, `base; chmod 555 dir`)
	dst := filepath.Join(dir, "copy")
	stage(t, filepath.Join(dir, "repo"), dst, workspace.Options{})
	if err := os.RemoveAll(dst); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(filepath.Join(dir, "repo/dir"), 0o755); err != nil {
		t.Error(err)
	}
}
