package workspace_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
)

// scenarios build a repository called repo in an empty directory. What git says in it must be what
// it says in a copy.
var scenarios = []struct{ name, script string }{
	{"clean", `base`},
	{"everything at once", `base
		echo more >>a.txt; echo staged >s.txt; git add s.txt; echo again >>s.txt; git rm -q --cached run.sh
		git mv dir/b.txt dir/c.txt; echo new >"un tracked"; mkdir -p x/y; echo deep >x/y/z; rm -r other
		echo '*.o' >.gitignore; echo o >a.o; mkdir ignored; echo i >ignored/i.o; git add -N x/y/z`},
	{"no commit", `git init -q repo; cd repo; echo a >a; git add a; echo b >b`},
	{"no commit at all, empty", `git init -q repo`},
	{"detached", `base; git checkout -q --detach HEAD~1; echo x >>a.txt`},
	{"merge conflict", `base; git checkout -q -b topic HEAD~1; echo topic >a.txt; git commit -qam topic; git checkout -q main
		echo main >a.txt; git commit -qam main; git merge -q topic || true`},
	{"rebase in progress", `base; git checkout -q -b topic HEAD~1; echo topic >a.txt; git commit -qam topic; git checkout -q main
		echo main >a.txt; git commit -qam main; git rebase -q topic || true`},
	{"interactive rebase stopped", `base; GIT_SEQUENCE_EDITOR="sed -i s/^pick/edit/" git rebase -q -i HEAD~1 || true`},
	{"am in progress", `base; git format-patch -q -1 -o ..; git reset -q --hard HEAD~1; echo z >a.txt; git commit -qam z; git am ../*.patch || true`},
	{"cherry-pick conflict", `base; git checkout -q -b topic HEAD~1; echo topic >a.txt; git commit -qam topic; git checkout -q main
		echo main >a.txt; git commit -qam main; git cherry-pick topic || true`},
	{"revert in progress", `base; echo y >a.txt; git commit -qam y; echo w >a.txt; git commit -qam w; git revert HEAD~1 || true`},
	{"bisect", `base; git bisect start -q; git bisect bad HEAD; git bisect good HEAD~1`},
	{"stash", `base; echo s >>a.txt; echo u >u; git stash -q -u; echo t >>a.txt; git stash -q; echo w >>a.txt`},
	{"packed refs, tags, notes, replacements", `base; git tag v1; git tag -a -m ann v2; git notes add -m note; git branch other HEAD~1
		git pack-refs --all; git branch loose; git gc -q; git replace HEAD~1 HEAD`},
	{"commit graph and bitmaps", `base; git repack -qadb; git commit-graph write --reachable; git multi-pack-index write; echo x >x; git add x; git commit -qm x`},
	{"linked work tree", `base; mv ../repo ../main; cd ../main; git worktree add -q -b wt ../repo HEAD~1; echo dirty >a.txt; git stash -q
		git bisect start; cd ../repo; echo wt >>a.txt; git add a.txt; echo x >>a.txt`},
	{"work tree of a bare repository", `base; cd ..; git clone -q --bare repo bare; rm -rf repo; git -C bare worktree add -q ../repo main; echo x >>repo/a.txt`},
	{"separate git directory", `base; cd ..; git init -q --separate-git-dir=elsewhere repo; git config -f elsewhere/config core.worktree ../repo; echo x >>repo/a.txt`},
	{"shallow", `base; for i in 1 2 3; do echo $i >a.txt; git commit -qam $i; done; cd ..; mv repo origin; git clone -q --depth 2 "file://$PWD/origin" repo`},
	{"borrowed objects", `base; git config --global --add agentbox.borrow "$(dirname "$PWD")"; cd ..; mv repo one; (cd one; git gc -q); git clone -q --shared one two; (cd two; ident; echo 2 >a.txt; git commit -qam 2)
		git clone -q --shared two repo; cd repo; ident; echo 3 >a.txt; git commit -qam 3`},
	{"submodules", `sub; base; git submodule --quiet add ../sub libs/sub; git submodule --quiet add ../sub second; git commit -qm subs
		echo dirty >>libs/sub/s; git -C second checkout -q HEAD~1; git submodule --quiet update --init --recursive libs/sub; echo u >libs/sub/untracked`},
	{"submodule not checked out", `sub; base; git submodule --quiet add ../sub sub; git submodule --quiet add ../sub other-sub; git commit -qm s
		git submodule --quiet deinit -f sub; git checkout -q -b without; git rm -qf other-sub; git commit -qm without`},
	{"submodules in a linked work tree", `sub; base; git submodule --quiet add ../sub sub; git commit -qm s; mv ../repo ../main; cd ../main
		git worktree add -q -b wt ../repo; cd ../repo; git submodule --quiet update --init; echo dirty >>sub/s`},
	{"submodule with its own .git", `sub; base; git clone -q ../sub own; git submodule --quiet add ../sub own; git commit -qm s; echo dirty >>own/s`},
	{"nested repositories", `base; git init -q inner; (cd inner; ident; echo i >i; git add i; git commit -qm i; echo u >u); git init -q blank; echo f >blank/f`},
	{"sparse checkout", `base; git sparse-checkout set dir; echo x >>dir/b.txt`},
	{"sparse index", `base; git sparse-checkout set --sparse-index dir; echo x >>dir/b.txt`},
	{"split index", `base; git update-index --split-index; echo x >>a.txt; git add a.txt`},
	{"untracked cache", `base; git update-index --untracked-cache; git status >/dev/null; echo u >u`},
	{"flags in the index", `base; git update-index --skip-worktree a.txt; git update-index --assume-unchanged run.sh; rm a.txt; echo x >run.sh`},
	{"odd names", `base; printf x >"$(printf 'new\nline')"; printf x >"$(printf 'latin\351')"; echo x >' lead'; echo x >-dash; echo x >'q"uote'
		echo x >Case; echo x >case; git add .; git commit -qm odd; printf y >"$(printf 'un\ntracked\377')"; rm -- -dash`},
	{"symbolic links", `base; ln -s a.txt link; ln -s /etc/hostname outside; ln -s nowhere dangling; ln -s dir dirlink; git add .; git commit -qm l
		rm link; ln -s run.sh link; ln -s ../.. up`},
	{"directory became a link", `base; mkdir ../target; echo secret >../target/b.txt; rm -r dir; ln -s ../target dir`},
	{"file became a directory", `base; rm a.txt; mkdir a.txt; echo x >a.txt/x; rm run.sh; mkdir run.sh`},
	{"types and bits", `base; chmod -x run.sh; chmod +x a.txt; mkfifo pipe; chmod 700 dir`},
	{"same size, same second", `base; echo aaaa >r; git add r; git commit -qm r; echo bbbb >r`},
	{"sha256", `git init -q --object-format=sha256 repo; cd repo; ident; echo a >a; git add a; git commit -qm a; echo b >>a`},
	{"line ends", `base; git config core.autocrlf true; printf 'x\r\ny\r\n' >crlf; git add crlf 2>/dev/null; git commit -qm crlf`},
	{"upstream", `base; cd ..; mv repo origin; git clone -q origin repo; cd repo; ident; echo 1 >1; git add 1; git commit -qm 1
		git -C ../origin commit -q --allow-empty -m up; git fetch -q; git branch -q gone; git config branch.gone.remote origin; git config branch.gone.merge refs/heads/gone`},
	{"included configuration", `base; git config -f ../extra user.name X; git config include.path ../../extra; git config 'alias.st' 'status "-s" # \ x'
		git config --add remote.o.fetch a; git config --add remote.o.fetch b`},
}

// prelude are the words the scripts are written in.
const prelude = `set -e
ident() { git config user.name t; git config user.email t@example.com; }
base() {
	git init -q repo; cd repo; ident
	echo one >a.txt; mkdir dir other; echo b >dir/b.txt; echo o >other/o.txt; echo '#!/bin/sh' >run.sh; chmod +x run.sh
	git add .; git commit -qm first; echo two >>a.txt; git commit -qam second
}
sub() { (git init -q subsub; cd subsub; ident; echo ss >ss; git add .; git commit -qm ss
	cd ..; git init -q sub; cd sub; ident; echo s >s; git add .; git commit -qm s1; git submodule --quiet add ../subsub nested; git commit -qm s2); }
`

// asked is what must come out the same. The first looks at what the index remembers about files
// before anything refreshes it.
var asked = []string{
	"diff-files --name-only", "status --porcelain=v2 --branch --show-stash -z", "status", "log --all --graph --format=%H%d%s%N", "diff", "diff --cached",
	"stash list", "reflog", "reflog show stash", "for-each-ref --format=%(refname)|%(objectname)|%(upstream)|%(upstream:track)|%(HEAD)", "tag -n", "submodule status --recursive", "ls-files --stage --debug -v",
	"config --get-all remote.o.fetch", "config alias.st", "rev-parse --is-shallow-repository",
}

func TestCopyIsEquivalent(t *testing.T) {
	isolateGit(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			dir := build(t, sc.script)
			want := answers(t, filepath.Join(dir, "repo"))
			linked, truncated := filepath.Join(dir, "linked"), filepath.Join(dir, "truncated")
			stage(t, filepath.Join(dir, "repo"), linked, workspace.Options{Link: true})
			standsAlone(t, linked, dir)
			compare(t, want, answers(t, linked))
			stage(t, filepath.Join(dir, "repo"), truncated, workspace.Options{})
			loseFractions(t, truncated)
			compare(t, want, answers(t, truncated))
			captured := filepath.Join(dir, "captured")
			captureAndApply(t, filepath.Join(dir, "repo"), filepath.Join(dir, "sources"), captured)
			standsAlone(t, captured, dir)
			compare(t, want, answers(t, captured))
		})
	}
}

// captureAndApply captures a checkout twice, and applies what was captured.
func captureAndApply(t *testing.T, repo, sources, dst string) {
	t.Helper()
	store, err := source.OpenStore(sources)
	if err != nil {
		t.Fatal(err)
	}
	var all [2]source.Captured
	for i := range all {
		one, release, err := store.Capture(t.Context(), describe(t, repo), "example.com/app")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		all[i] = one
	}
	if all[0].Digest() != all[1].Digest() {
		t.Errorf("the same checkout is %s and %s", all[0].Digest(), all[1].Digest())
	}
	if _, err := all[1].Apply(t.Context(), dst, 0); err != nil {
		t.Fatal(err)
	}
}

// loseFractions does to times what a disk made by mke2fs does.
func loseFractions(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		whole := fi.ModTime().Truncate(time.Second)
		return os.Chtimes(path, whole, whole)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// standsAlone checks that the copy names nothing of the directory it came from.
func standsAlone(t *testing.T, dst, from string) {
	t.Helper()
	for _, f := range []string{"objects/info/alternates", "commondir", "gitdir", "hooks", "worktrees"} {
		if _, err := os.Lstat(filepath.Join(dst, ".git", f)); err == nil {
			t.Errorf("the copy has .git/%s", f)
		}
	}
	err := filepath.WalkDir(dst, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" && d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(data), "/"+filepath.Base(from)) || !strings.HasPrefix(string(data), "gitdir: ..") {
				t.Errorf("%s: %q %v", path, data, err)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := gitOut(t, dst, "fsck", "--no-dangling", "--no-progress"); strings.Contains(out, "error") || strings.Contains(out, "missing") {
		t.Errorf("git fsck in the copy: %s", out)
	}
}

func answers(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, args := range asked {
		out = append(out, withoutInodes(gitOut(t, dir, strings.Fields(args)...)))
	}
	return out
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	for i, args := range asked {
		if want[i] != got[i] {
			t.Errorf("git %s\n--- original\n%s\n--- copy\n%s", args, want[i], got[i])
		}
	}
}

// withoutInodes drops the lines of ls-files --debug that differ in any copy.
func withoutInodes(s string) string {
	var keep []string
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "  ctime:") && !strings.HasPrefix(line, "  dev:") && !strings.HasPrefix(line, "  uid:") && !strings.HasPrefix(line, "  mtime:") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "")
}

func stage(t testing.TB, src, dst string, opts workspace.Options) workspace.Stats {
	t.Helper()
	repo, err := workspace.Describe(context.Background(), src)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := workspace.Stage(context.Background(), repo, dst, opts)
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// isolateGit keeps the configuration of whoever runs the tests out of them.
func isolateGit(t testing.TB) {
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "gitconfig"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_COUNT", "2")
	t.Setenv("GIT_CONFIG_KEY_0", "init.defaultBranch")
	t.Setenv("GIT_CONFIG_VALUE_0", "main")
	t.Setenv("GIT_CONFIG_KEY_1", "protocol.file.allow")
	t.Setenv("GIT_CONFIG_VALUE_1", "always")
	t.Setenv("GIT_EDITOR", "true")
}

// tempDir is in memory where there is one: these tests make and remove tens of thousands of small
// files.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "workspace-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// build runs a script and returns the directory it ran in.
func build(t testing.TB, script string) string {
	t.Helper()
	dir := tempDir(t)
	cmd := exec.Command("sh", "-c", prelude+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// gitOut is everything git prints, failures included: they must be the same too.
func gitOut(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}
