package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
)

// localGuest is a box that is a directory of this machine.
type localGuest struct{ path string }

// feed copies what a command is to read into a pipe, so that the end of the command need not wait
// for what is never written.
func feed(r io.Reader) *os.File {
	out, in, err := os.Pipe()
	if err != nil || r == nil {
		return nil
	}
	go func() {
		_, _ = io.Copy(in, r)
		in.Close()
	}()
	return out
}

func (h localGuest) Exec(ctx context.Context, c environment.Command) (environment.Status, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = c.Dir, feed(c.Stdin), c.Stdout, c.Stderr, os.Environ()
	if h.path != "" {
		cmd.Env = append(cmd.Env, "PATH="+h.path)
	}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	err := cmd.Run()
	if cmd.Stdin != nil {
		cmd.Stdin.(*os.File).Close()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return environment.Status{Code: exit.ExitCode()}, nil
	}
	return environment.Status{}, err
}

func (h localGuest) Files(ctx context.Context, dir string, w io.Writer) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if path == filepath.Join(dir, ".git") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		if header.Name, err = filepath.Rel(dir, path); err != nil {
			return err
		}
		if err := out.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = out.Write(data)
		}
		return err
	})
	return errors.Join(err, out.Close())
}

const prelude = `set -e
ident() { git config user.name t; git config user.email t@example.com; }
base() {
	git init -q repo; cd repo; ident
	echo one >a.txt; mkdir dir; echo b >dir/b.txt; echo '*.o' >.gitignore
	git add .; git commit -qm first; echo two >>a.txt; git commit -qam second; cd ..; cp -a repo box; git -C repo rev-parse HEAD >base; cd box
}
`

// world is a checkout, a box made from it in which something was done, and a mirror.
type world struct {
	dir, repo, box, mirror, base string
}

// isolateGit keeps the configuration of whoever runs the tests out of them.
func isolateGit(t *testing.T) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(config, []byte("[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
}

func newWorld(t *testing.T, script string) world {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", prelude+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	base, _ := os.ReadFile(filepath.Join(dir, "base"))
	return world{dir, filepath.Join(dir, "repo"), filepath.Join(dir, "box"), filepath.Join(dir, "mirrors", "p.git"), strings.TrimSpace(string(base))}
}

func (w world) request() Request {
	return Request{Mirror: w.mirror, Ref: TaskRef("t-1"), Base: w.base, Checkout: w.repo, ExportTo: w.repo, Dir: w.box}
}

func gitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// state is every file of a directory with its contents and times, but for git's own locks.
func state(t *testing.T, dir string) string {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all.WriteString(path + info.Mode().String())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all.Write(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestKeep(t *testing.T) {
	isolateGit(t)
	for _, c := range []struct {
		name, script   string
		commits, files int
		missing        string            // in one of Kept.Missing
		has            map[string]string // files of the commit; "" for one that is not there
		also           string            // a branch that is kept, too
	}{
		{"nothing was done", `base`, 0, 0, "", map[string]string{"a.txt": "one\ntwo"}, ""},
		{"everything", `base; echo three >>a.txt; git commit -qam third; echo four >>a.txt; git add a.txt; echo u >untracked; rm dir/b.txt; echo o >x.o; chmod +x a.txt; ln -s a.txt link`, 1, 4, "",
			map[string]string{"a.txt": "one\ntwo\nthree\nfour", "untracked": "u", "dir/b.txt": "", "x.o": ""}, ""},
		{"an ignored file that is tracked", `base; echo o >x.o; git add -f x.o`, 0, 1, "", map[string]string{"x.o": "o"}, ""},
		{"a detached HEAD", `base; git checkout -q --detach; git commit -q --allow-empty -m adrift`, 1, 0, "", nil, ""},
		{"a merge in progress", `base; git checkout -q -b side HEAD~1; echo s >a.txt; git commit -qam s; git checkout -q main; git merge -q side || true`, 0, 1, "", map[string]string{"a.txt": "<<<<<<< HEAD"}, "side"},
		{"a rebase in progress", `base; git checkout -q -b side HEAD~1; echo s >a.txt; git commit -qam s; git checkout -q main; git rebase -q side || true`, 1, 1, "", nil, ""},
		{"another branch and a stash", `base; git checkout -q -b other; git commit -q --allow-empty -m o; git checkout -q main; echo s >>a.txt; git stash -q`, 0, 0, "", nil, "refs/stash"},
		{"a branch after many of the user's", `base; for n in $(seq 150); do echo "create refs/heads/b$n $(git commit-tree -p HEAD -m $n 'HEAD^{tree}')"; done | git update-ref --stdin
			git push -q ../repo 'refs/heads/b*:refs/heads/b*'; git checkout -q -b zzz; git commit -q --allow-empty -m o; git checkout -q main; echo s >s; rm s`, 0, 0, "", nil, "zzz"},
		{"a branch whose commit is absent", `base; echo 1111111111111111111111111111111111111111 >.git/refs/heads/gone; git checkout -q -b other; git commit -q --allow-empty -m o; git checkout -q main`,
			0, 0, "damaged", nil, "other"},
		{"an unborn branch", `git init -q repo; git init -q box; : >base; cd box; echo n >new`, 0, 1, "", map[string]string{"new": "n"}, ""},
		{"an orphan branch", `base; git checkout -q --orphan fresh; git rm -rfq .; echo n >new`, 0, 1, "", map[string]string{"new": "n", "a.txt": ""}, ""},
		{"a corrupt index", `base; echo u >untracked; echo rubbish >.git/index`, 0, 1, "the index is damaged", map[string]string{"untracked": "u", "a.txt": "one\ntwo"}, ""},
		{"a locked index", `base; echo u >untracked; touch .git/index.lock`, 0, 1, "", map[string]string{"untracked": "u"}, ""},
		{"a submodule", `git init -q sub; (cd sub; ident; echo s >s; git add .; git commit -qm s); base; git submodule --quiet add ../sub sub`, 0, 2, "", nil, "sub (main)"},
		{"a nested repository", `base; git init -q inner; cd inner; ident; echo i >i; git add .; git commit -qm i`, 0, 1, "", nil, "inner (main)"},
		{"a nested repository without a commit", `base; git init -q inner; echo i >inner/i`, 0, 0, "", nil, "inner (main)"},
		{"a repository that is damaged", `base; echo up/ >>.git/info/exclude; git clone -q . up; echo rubbish >up/.git/HEAD`, 0, 0, "in up: this repository cannot be read", nil, ""},
		{"what only looks like one", `base; mkdir up; echo gitdir: /nowhere >up/.git; echo u >up/u; mkdir -p down/.git; echo d >down/d`, 0, 2, "", map[string]string{"up/u": "u", "down/d": "d"}, ""},
		{"a clone of what another machine has", `base; echo up/ >>.git/info/exclude; git clone -q . up; git -C up remote set-url origin https://git.invalid/up`, 0, 0, "", nil, ""},
		{"a commit in such a clone", `base; echo up/ >>.git/info/exclude; git clone -q . up; cd up; ident; git remote set-url origin git@git.invalid:up; git commit -q --allow-empty -m own`, 0, 0, "", nil, "up (main)"},
		{"a shallow clone with a commit", `base; echo up/ >>.git/info/exclude; git clone -q --depth 1 "file://$PWD" up; cd up; ident; git remote set-url origin ssh://git.invalid/up; git commit -q --allow-empty -m own`, 0, 0, "up (main): its history is incomplete", nil, ""},
		{"a bare repository that is ignored", `base; echo /store/ >>.git/info/exclude; git init -q --bare store; git push -q ./store HEAD~1:refs/heads/main; git -C store update-ref refs/heads/x "$(git -C store -c user.name=t -c user.email=t commit-tree -m x main^{tree})"`, 0, 0, "", nil, "store (x)"},
		{"a branch of a submodule", `git init -q sub; (cd sub; ident; echo s >s; git add .; git commit -qm s); base; cd ../repo; git submodule --quiet add ../sub sub; git commit -qm sub; git rev-parse HEAD >../base; cd ..; rm -rf box; cp -a repo box; cd box/sub
			git checkout -q -b topic; git -c user.name=t -c user.email=t commit -q --allow-empty -m topic; git checkout -q main`, 0, 0, "", nil, "sub (topic)"},
		{"one that is no longer checked out", `git init -q sub; (cd sub; ident; echo s >s; git add .; git commit -qm s); base; cd ../repo; git submodule --quiet add ../sub sub; git commit -qm sub; git rev-parse HEAD >../base; cd ..; rm -rf box; cp -a repo box; cd box/sub
			git checkout -q -b topic; git -c user.name=t -c user.email=t commit -q --allow-empty -m topic; git checkout -q main; cd ..; git submodule --quiet deinit sub`, 0, 0, "", nil, ".git/modules/sub (topic)"},
		{"a work tree in an ignored directory", `base; echo .w/ >>.git/info/exclude; git worktree add -q .w/feat -b feat; echo n >.w/feat/n; echo x >>.w/feat/a.txt`, 0, 0, "", nil, ".w/feat (feat)"},
		{"a work tree that is not ignored", `base; git worktree add -q feat -b feat; echo n >feat/n`, 0, 0, "", map[string]string{"feat": "", "feat/n": ""}, "feat (feat)"},
		{"a work tree elsewhere, on no branch", `base; git worktree add -q --detach ../away; git -C ../away commit -q --allow-empty -m away; echo n >../away/n`, 0, 0, "", nil, "away (detached)"},
		{"a work tree whose files are gone", `base; git worktree add -q --detach ../away; git -C ../away commit -q --allow-empty -m away; rm -rf ../away`, 0, 0, "", nil, "HEAD"},
		{"a work tree without changes", `base; git worktree add -q .w -b feat`, 0, 0, "", nil, ""},
		{"a tag", `base; git checkout -q --detach; git commit -q --allow-empty -m t; git tag -a -m t t; git checkout -q main`, 0, 0, "", nil, "refs/tags/t"},
		{"a commit that was left on no branch", `base; git checkout -q --detach; git commit -q --allow-empty -m adrift; git checkout -q main`, 0, 0, "", nil, "detached"},
		{"a rebase with what was uncommitted", `base; git checkout -q -b side HEAD~1; echo s >a.txt; git commit -qam s; git checkout -q main; echo d >>dir/b.txt; git rebase -q --autostash side || true`, 1, 1, "", nil, "autostash"},
		{"a required filter that cannot run", `base; git config filter.up.clean no-such; git config filter.up.required true; echo '*.up filter=up' >.gitattributes; echo u >u.up; echo v >v`, 0, 3, "u.up is kept as it lies in the box: its filter up cannot run",
			map[string]string{"u.up": "u", "v": "v"}, ""},
		{"several filters, one of which can", `base; for f in a b c; do git config filter.$f.required true; echo "*.$f filter=$f" >>.gitattributes; echo $f >$f.$f; done; git config filter.a.process no-such; git config filter.b.clean false; git config filter.c.clean 'tr c x'`, 0, 4, "b.b is kept",
			map[string]string{"a.a": "a", "b.b": "b", "c.c": "x"}, ""},
		{"a filter that is not required", `base; git config filter.up.clean no-such; echo '*.up filter=up' >.gitattributes; echo u >u.up`, 0, 2, "", map[string]string{"u.up": "u"}, ""},
		{"one in a work tree", `base; echo .w/ >>.git/info/exclude; git config filter.up.clean no-such; git config filter.up.required true; git worktree add -q .w/feat -b feat; cd .w/feat; echo '*.up filter=up' >.gitattributes; echo u >u.up`, 0, 0,
			".w/feat/u.up is kept", nil, ".w/feat (feat)"},
		{"odd names", `base; echo x >"$(printf 'new\nline')"; echo y >"$(printf 'latin\351')"; echo z >' -z'; echo q >'q"'`, 0, 4, "", map[string]string{" -z": "z", `q"`: "q"}, ""},
		{"a sparse checkout", `base; git sparse-checkout set dir; echo n >dir/n`, 0, 1, "", map[string]string{".gitignore": "*.o", "dir/n": "n"}, ""},
		{"a split index", `base; git update-index --split-index; echo u >u`, 0, 1, "", map[string]string{"u": "u"}, ""},
		{"a change that no time shows", `base; git config core.trustctime false; git config core.checkStat minimal; touch -d @1000000000 a.txt; git update-index --refresh
			printf 'two\none\n' >a.txt; touch -d @1000000000 a.txt .git/index`, 0, 1, "", map[string]string{"a.txt": "two\none"}, ""},
		{"files that git was told to overlook", `base; git update-index --assume-unchanged a.txt; echo x >a.txt`, 0, 1, "", map[string]string{"a.txt": "x"}, ""},
		{"files that git was told to skip", `base; odd="$(printf 'dir/e\351\nx')"; echo c >dir/c.txt; echo e >"$odd"; git add .; git commit -qm third; git update-index --skip-worktree a.txt dir/*; rm dir/b.txt; echo x >a.txt; echo x >"$odd"; rm .gitignore`,
			1, 3, "", map[string]string{"a.txt": "x", "dir/b.txt": "b", "dir/c.txt": "c", "dir/e\xe9\nx": "x", ".gitignore": ""}, ""},
		{"files that git was told to overlook and to skip", `base; git update-index --assume-unchanged a.txt; git update-index --skip-worktree a.txt; echo x >a.txt`, 0, 1, "", map[string]string{"a.txt": "x"}, ""},
		{"files outside of a sparse checkout", `base; git status -s; git sparse-checkout set --no-cone /a.txt; mkdir dir other; echo x >dir/b.txt; echo o >other/o; git rm -q --cached a.txt; rm a.txt`, 0, 3, "",
			map[string]string{"a.txt": "", "dir/b.txt": "x", "other/o": "o", ".gitignore": "*.o"}, ""},
		{"a sparse index", `base; mkdir in; echo i >in/i; git add .; git commit -qm third; git sparse-checkout set --cone --sparse-index in; mkdir dir; echo c >dir/c.txt; echo x >in/i`, 1, 2, "",
			map[string]string{"dir/b.txt": "b", "dir/c.txt": "c", "in/i": "x"}, ""},
		{"a file that cannot be read", `base; echo u >u; mkfifo pipe; echo x >u2`, 0, 2, "", map[string]string{"u": "u"}, ""},
		{"a configuration that runs things", `base; echo u >u; for k in core.fsmonitor core.hooksPath diff.external core.pager; do git config $k 'touch ran; false'; done`, 0, 1, "", map[string]string{"u": "u", "ran": ""}, ""},
		{"a damaged HEAD", `base; echo u >u; echo rubbish >.git/HEAD`, 0, 1, "commits that were made in the box", map[string]string{"u": "u", "a.txt": "one\ntwo", "x.o": ""}, ""},
		{"a damaged branch", `base; echo u >u; echo rubbish >.git/refs/heads/main`, 0, 1, "commits that were made in the box", map[string]string{"u": "u"}, ""},
		{"a commit whose tree is gone", `base; echo 3 >>a.txt; git commit -qam 3; t=$(git rev-parse HEAD^{tree}); rm -f .git/objects/$(echo $t | cut -c1-2)/$(echo $t | cut -c3-); echo u >u`, 0, 2,
			"commits that were made in the box", map[string]string{"u": "u", "a.txt": "one\ntwo\n3"}, ""},
		{"no .git", `base; echo u >u; rm -rf .git`, 0, 1, "has no .git", map[string]string{"u": "u", "a.txt": "one\ntwo"}, ""},
		{"sha256", `git init -q --object-format=sha256 repo; cd repo; ident; echo a >a.txt; git add .; git commit -qm a; git rev-parse HEAD >../base; cd ..; cp -a repo box; echo u >box/u`, 0, 1, "", map[string]string{"u": "u"}, ""},
		{"a partial clone", `base; cd ..; mv repo origin; git -C origin config uploadpack.allowFilter true; echo 3 >origin/dir/b.txt; git -C origin commit -qam third; git clone -q --filter=blob:none "file://$PWD/origin" repo; rm -rf box; cp -a repo box; git -C repo rev-parse HEAD >base; rm -rf origin; cd box; ident
			echo u >u; echo b >>dir/b.txt; git commit -qam on; git branch old HEAD~2; git rm -q a.txt`, 1, 2, "", map[string]string{"u": "u", "dir/b.txt": "3\nb", "a.txt": ""}, ""},
		{"a shallow checkout", `base; cd ..; mv repo origin; git clone -q --depth 1 "file://$PWD/origin" repo; rm -rf box; cp -a repo box; cd box; ident; echo u >u; git commit -q --allow-empty -m on`, 1, 1, "", map[string]string{"u": "u"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.script)
			before, checkout := state(t, w.box), gitOut(t, w.repo, "status", "--porcelain", "--branch")
			kept, err := Keep(t.Context(), localGuest{}, w.request())
			if err != nil {
				t.Fatal(err)
			}
			if kept.Commits != c.commits || kept.Files != c.files || !strings.Contains(strings.Join(append(kept.Missing, kept.Notes...), "\n"), c.missing) || c.missing == "" && len(kept.Missing) > 0 {
				t.Errorf("%d commits, %d files, missing %q; want %d, %d, %q", kept.Commits, kept.Files, kept.Missing, c.commits, c.files, c.missing)
			}
			if state(t, w.box) != before {
				t.Error("the box has changed")
			}
			for _, d := range []string{kept.Mirror, w.repo} {
				if got := gitOut(t, d, "rev-parse", "refs/agentbox/tasks/t-1"); got != kept.Commit {
					t.Errorf("%s has %s, not %s", d, got, kept.Commit)
				}
				for name, want := range c.has {
					out, err := exec.Command("git", "-C", d, "show", kept.Commit+":"+name).Output()
					if want == "" && err == nil || want != "" && !strings.HasPrefix(string(out), want) {
						t.Errorf("%s of %s is %q (%v), want %q", name, d, out, err, want)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(kept.Mirror, promised)); err != nil {
				gitOut(t, kept.Mirror, "fsck", "--connectivity-only", "--no-dangling")
			} else if d, err := Diff(t.Context(), kept, DiffOptions{}); err != nil || len(d.Files) != 3 || d.Truncated {
				t.Errorf("%+v, %v", d, err)
			}
			if kept.Unexported != "" || gitOut(t, w.repo, "status", "--porcelain", "--branch") != checkout {
				t.Error("the checkout has no ref, or has changed")
			}
			names := ""
			for _, b := range kept.OtherRefs {
				names += b.String() + "\n"
				gitOut(t, kept.Mirror, "cat-file", "-e", b.Ref)
			}
			if !strings.Contains(names, c.also) || c.also == "" && names != "" {
				t.Errorf("also kept %q, want %q", names, c.also)
			}
			if left, _ := filepath.Glob(filepath.Join(kept.Mirror, "incoming-*")); len(left) > 0 {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestKeepWithoutGit(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo u >u; echo o >x.o`)
	bin := t.TempDir()
	for _, name := range []string{"sh", "tr", "rm"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := Keep(t.Context(), localGuest{path: bin}, w.request())
	if err != nil || kept.Files != 1 || len(kept.Missing) != 1 || !strings.Contains(kept.Missing[0], "there is no git in the box") {
		t.Fatalf("%+v, %v", kept, err)
	}
	if got := gitOut(t, kept.Mirror, "show", kept.Commit+":u"); got != "u" {
		t.Error(got)
	}
}

// Names that git refuses do not keep it from keeping the other files.
func TestKeepWithoutGitKeepsWhatGitCanTake(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo u >u; rm -rf .git; mkdir .GIT; echo x >.GIT/x; echo y >git~1`)
	kept, err := Keep(t.Context(), localGuest{}, w.request())
	if err != nil || len(kept.Missing) < 2 || !strings.Contains(strings.Join(kept.Missing, "\n"), "git~1") {
		t.Fatalf("%+v, %v", kept, err)
	}
	if got := gitOut(t, kept.Mirror, "show", kept.Commit+":u"); got != "u" {
		t.Error(got)
	}
}

func TestKeepWithoutCheckout(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo u >u`)
	req := w.request()
	req.Checkout = filepath.Join(w.dir, "gone")
	req.ExportTo = req.Checkout
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil || kept.Unexported == "" || len(kept.Missing) > 0 || kept.Files != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	gitOut(t, kept.Mirror, "log", "--oneline", kept.Commit)
}

func TestKeepIsBounded(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; head -c 3000000 /dev/urandom >large`)
	req := w.request()
	req.Limit = 1 << 20
	if _, err := Keep(t.Context(), localGuest{}, req); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Errorf("too much: %v", err)
	}
	req = w.request()
	req.Timeout = 1
	if _, err := Keep(t.Context(), localGuest{}, req); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("too long: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.mirror, "refs/agentbox/tasks")); err == nil {
		t.Error("a ref was made all the same")
	}
}

// The box goes once its work is kept, so git waits for the disk, which it does not do for refs by
// itself.
func TestMirrorWaitsForDisk(t *testing.T) {
	isolateGit(t)
	m, err := openMirror(t.Context(), filepath.Join(t.TempDir(), "m.git"), 40)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.git(t.Context(), nil, "config", "core.fsync"); err != nil || got != "committed\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// Later work of the same name replaces the ref; nothing of what was kept before is sent again.
func TestKeepAgain(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo u >u`)
	first, err := Keep(t.Context(), localGuest{}, w.request())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.box, "v"), []byte("v"), 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := Keep(t.Context(), localGuest{}, w.request())
	if err != nil || second.Commit == first.Commit || second.Files != 2 {
		t.Fatalf("%+v, %v", second, err)
	}
}

// scriptedGuest is a box that answers with given bytes.
type scriptedGuest struct{ out []byte }

func (s scriptedGuest) Exec(_ context.Context, c environment.Command) (environment.Status, error) {
	_, err := c.Stdout.Write(s.out)
	return environment.Status{}, err
}

func (s scriptedGuest) Files(context.Context, string, io.Writer) error {
	return agentbox.Errorf(agentbox.Unavailable, "no files")
}

func TestKeepFromHostileBox(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base`)
	for name, out := range map[string]string{
		"nothing":               "",
		"no workspace":          "format sha1\nready\npack\n" + emptyPack,
		"no pack":               "format sha1\ntree " + w.base + " " + w.base + " 0 HEAD .\nready\n",
		"rubbish for a pack":    "format sha1\ntree " + w.base + " " + w.base + " 0 HEAD .\nready\npack\nrubbish",
		"an option for commit":  "format sha1\ntree --all --upload-pack=touch 0 HEAD .\nready\npack\n",
		"a commit nobody has":   "format sha1\ntree " + strings.Repeat("1", 40) + " - 0 HEAD .\nready\npack\n" + emptyPack,
		"endless lines":         strings.Repeat("missing x\n", 10000000),
		"an endless line":       strings.Repeat("x", 10<<20),
		"a head nobody has":     "format sha1\ntree " + w.base + " " + strings.Repeat("1", 40) + " 0 HEAD .\nready\npack\n" + emptyPack,
		"a head that is a tree": "format sha1\ntree " + w.base + " " + gitOut(t, w.box, "rev-parse", "HEAD^{tree}") + " 0 HEAD .\nready\npack\n" + emptyPack,
		"a top that is a tree":  "format sha1\ntree " + gitOut(t, w.box, "rev-parse", "HEAD^{tree}") + " " + w.base + " 0 HEAD .\nready\npack\n" + emptyPack,
		"another format":        "format sha256\ntree " + strings.Repeat("1", 64) + " - 0 HEAD .\nready\npack\n" + emptyPack,
		"a change of nothing":   "format sha1\nchange 100644 x x\n",
	} {
		kept, err := Keep(t.Context(), scriptedGuest{[]byte(out)}, w.request())
		if err == nil {
			t.Errorf("%s: %+v", name, kept)
		}
		if strings.Contains(fmt.Sprint(err), "mirror") {
			t.Errorf("%s: the mirror is blamed: %v", name, err)
		}
	}
	if out, err := exec.Command("git", "-C", w.mirror, "for-each-ref", "refs/agentbox/tasks").Output(); err != nil || len(out) > 0 {
		t.Errorf("refs %q, %v", out, err)
	}
}

const emptyPack = "PACK\x00\x00\x00\x02\x00\x00\x00\x00\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e"

func TestRefsStayInTheirNamespace(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base`)
	for _, ref := range []string{"refs/heads/main", "refs/agentbox/../heads/main", "HEAD", ""} {
		req := w.request()
		req.Ref = ref
		if _, err := Keep(t.Context(), localGuest{}, req); err == nil {
			t.Errorf("%q was made", ref)
		}
	}
}

// What a checkout's file shallow says may have come in an archive: it must neither break the
// mirror, which all checkouts of the project share, nor cut a history that the mirror has.
func TestHostileShallowFile(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo u >u`)
	shallow := filepath.Join(w.repo, ".git", "shallow")
	for _, text := range []string{"rubbish\n", strings.Repeat("0", 39) + "\n", ""} {
		if err := os.WriteFile(shallow, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if kept, err := Keep(t.Context(), localGuest{}, w.request()); err != nil || kept.Files != 1 {
			t.Fatalf("%q: %+v, %v", text, kept, err)
		}
	}
	if err := os.WriteFile(shallow, []byte(w.base+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mirror{w.mirror}
	repo, err := workspace.Describe(t.Context(), w.repo)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.borrowShallow(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	if got := gitOut(t, w.mirror, "rev-list", "--count", w.base); got != "2" {
		t.Errorf("%s commits of two are left", got)
	}
}

// Boxes of one project are looked at beside each other, and each may come from a shallow checkout.
func TestConcurrentShallowCheckouts(t *testing.T) {
	isolateGit(t)
	m, err := openMirror(t.Context(), filepath.Join(t.TempDir(), "m.git"), 40)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("%040x", i+1)
		want = append(want, id)
		repo := workspace.Repo{Commit: id, CommonDir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(repo.CommonDir, "shallow"), []byte(id+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := m.borrowShallow(t.Context(), repo); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(filepath.Join(m.dir, "shallow"))
	if err != nil || !slices.Equal(strings.Fields(string(got)), want) {
		t.Errorf("%d of %d are there, %v", len(strings.Fields(string(got))), len(want), err)
	}
}
