package snapshot

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// entered is a workspace that another machine made of a snapshot of a box, in which a script then ran,
// and its snapshot, in the mirror of the box's machine.
func entered(t *testing.T, w world, from Document, script string) (dir string, to Document) {
	t.Helper()
	dir = filepath.Join(w.dir, "entered")
	if err := Checkout(t.Context(), from.Kept(w.mirror), from.Branch, dir, ""); err != nil {
		t.Fatal(err)
	}
	sh(t, dir, "git config user.name o; git config user.email o@example.com; "+script)
	there := w
	there.box, there.base = dir, from.Head
	req := there.request()
	req.Rest, req.All, req.Ref, req.ExportTo, req.Checkout, req.Artifacts = true, true, SnapshotOf(agentbox.BoxID{2}), "", "", []string{"out/**"}
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil {
		t.Fatal(err)
	}
	to, _, err = NewDocument(t.Context(), kept, from.Project)
	if err != nil {
		t.Fatal(err)
	}
	return dir, to
}

// replaceIn is Replace in a world's box, for a snapshot of it.
func replaceIn(t *testing.T, w world, from, to Document) (bool, error) {
	t.Helper()
	req := w.request()
	req.Rest, req.All, req.Ref, req.ExportTo, req.Artifacts = true, true, SnapshotOf(agentbox.BoxID{1}), "", []string{"out/**"}
	return Replace(t.Context(), localGuest{}, req, from, to, func(ctx context.Context, kept Kept) (Document, error) {
		d, _, err := NewDocument(ctx, kept, to.Project)
		return d, err
	})
}

// sameWork fails unless two workspaces have the same files, index, refs and state.
func sameWork(t *testing.T, got, want string) {
	t.Helper()
	for _, args := range [][]string{
		{"status", "--porcelain=v2", "--branch", "-uall", "--ignored"}, {"ls-files", "-s"}, {"ls-files", "-v"}, {"diff"}, {"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/stash"}, {"symbolic-ref", "-q", "HEAD"}, {"stash", "list", "--format=%gd %gs %H"},
	} {
		run := func(dir string) string {
			out, _ := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
			return string(out)
		}
		if g, w := run(got), run(want); g != w {
			t.Errorf("git %s:\n%s\nnot\n%s", args, g, w)
		}
	}
	list := func(dir string) string {
		out, err := exec.Command("sh", "-c", `cd "$1" && find . -path ./.git -prune -o -type f -exec stat -c '%n %a' {} + -exec sha256sum {} + -o -type l -exec stat -c %N {} + | sort; cd .git && find . -name 'MERGE*' -o -name 'rebase-*' | sort`, "sh", dir).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if g, w := list(got), list(want); g != w {
		t.Errorf("files:\n%s\nnot\n%s", g, w)
	}
}

// A box that is as it was goes on from what was done elsewhere, exactly.
func TestReplace(t *testing.T) {
	isolateGit(t)
	for name, script := range map[string]string{
		"commits":  "echo 3 >>a.txt; git commit -qam three; git checkout -q -b topic; echo 4 >four; git add four; git commit -qm four; git branch -D old; rm dir/b.txt; rmdir dir; ln -s mine dir",
		"files":    "rm mine; echo more >>dir/b.txt; mkdir -p new/er; echo n >new/er/n; chmod 600 new/er/n; ln -s ../gone new/link; git rm -q --cached a.txt; echo x2 >out/x.o; echo y >out/y.o",
		"staged":   "echo s >>a.txt; git add a.txt; rm a.txt; mkdir a.txt; echo u >>a.txt/u; git mv dir/b.txt moved",
		"conflict": "git stash -q -u; git checkout -q -b side HEAD; echo side >a.txt; git commit -qam side; git checkout -q main; echo main >a.txt; git commit -qam main; git merge side >/dev/null || true",
		"stashes":  "git stash drop -q 'stash@{1}'; echo 5 >>dir/b.txt; git stash push -q -m five -- dir/b.txt",
		"detached": "git checkout -q --detach; rm -r dir; echo file >dir",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "base; for i in 1 2 3; do echo $i >>dir/b.txt; git stash -q -m $i; done; echo mine >mine; mkdir out; echo x >out/x.o; echo more >>a.txt; git branch old")
			from, _ := documentOf(t, w)
			dir, to := entered(t, w, from, script)
			sh(t, w.box, "touch mine a.txt") // as gVisor does when it saves a box
			if done, err := replaceIn(t, w, from, to); err != nil || !done {
				t.Fatalf("%v, %v", done, err)
			}
			sameWork(t, w.box, dir)
		})
	}
}

// A box that has changed meanwhile stays as it is.
func TestReplaceOfWhatMoved(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, "base; echo mine >mine; mkdir out; echo x >out/x.o")
	from, _ := documentOf(t, w)
	_, to := entered(t, w, from, "echo theirs >a.txt; git commit -qam theirs")
	for change, back := range map[string]string{
		"echo later >>a.txt": "git checkout -q a.txt", "git branch later": "git branch -qD later", "git add mine": "git rm -q --cached mine", "echo later >out/x.o": "echo x >out/x.o",
	} {
		sh(t, w.box, change)
		before := workOf(t, w.box)
		if done, err := replaceIn(t, w, from, to); done || err != nil || workOf(t, w.box) != before {
			t.Errorf("%s: %v, %v", change, done, err)
		}
		sh(t, w.box, back)
	}
	if err := Offer(t.Context(), localGuest{}, w.box, w.mirror, "refs/agentbox/pushed/two", to); err != nil {
		t.Fatal(err)
	}
	if got := gitOut(t, w.box, "log", "-1", "--format=%s", "refs/agentbox/pushed/two^"); got != "theirs" {
		t.Errorf("%q", got)
	}
}

// A file that no snapshot has, since git ignores it, is not overwritten.
func TestReplaceWithAFileInTheWay(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, "base; printf 'big\\nbelow\\n/top/*\\n' >>.git/info/exclude")
	from, _ := documentOf(t, w)
	_, to := entered(t, w, from, "echo theirs >big; mkdir -p below/it; echo theirs >below/it/b; echo theirs >top; git add .; git commit -qm theirs")
	for file, script := range map[string]string{"big": "echo mine >big", "below": "echo mine >below", "top/x": "mkdir top; echo mine >top/x"} {
		sh(t, w.box, script)
		before := workOf(t, w.box)
		if _, err := replaceIn(t, w, from, to); err == nil || !strings.Contains(err.Error(), file+" is in the way") || workOf(t, w.box) != before {
			t.Errorf("%s: %v", file, err)
		}
		sh(t, w.box, "rm -rf big below top")
	}
	if done, err := replaceIn(t, w, from, to); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
}

func sh(t *testing.T, dir, script string) string {
	t.Helper()
	c := exec.Command("sh", "-ec", script)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// workOf is every file of a workspace and its repository, but for the objects.
func workOf(t *testing.T, dir string) string {
	return sh(t, dir, "find . -path ./.git/objects -prune -o -type f -exec sha256sum {} + | sort; GIT_OPTIONAL_LOCKS=0 git status --porcelain=v2 -uall --ignored")
}

// A snapshot of another machine's that would write elsewhere, or what git runs, is not taken.
func TestReplaceByForgery(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, "base")
	from, _ := documentOf(t, w)
	_, to := entered(t, w, from, "echo theirs >a.txt; git add a.txt")
	m := mirror{w.mirror}
	blob := gitIn(t, m, "hash-object", "-w", "--stdin")
	hooks := strings.TrimSpace(mktree(t, m, "100644 blob "+blob+"\tpost-index-change"))
	for name, entry := range map[string]string{"hooks": "040000 tree " + hooks, "config": "100644 blob " + blob} {
		state := strings.TrimSpace(mktree(t, m, entry+"\t"+name))
		forged := to
		all := gitIn(t, m, "ls-tree", to.Rest)
		lines := ""
		for line := range strings.Lines(all + "\n") {
			if !strings.HasSuffix(strings.TrimSpace(line), "\tstate") {
				lines += line
			}
		}
		root := strings.TrimSpace(mktree(t, m, strings.TrimSpace(lines)+"\n040000 tree "+state+"\tstate"))
		forged.Rest = gitIn(t, m, "-c", "user.name=x", "-c", "user.email=x", "commit-tree", "-m", "rest", root)
		before := workOf(t, w.box)
		if done, err := replaceIn(t, w, from, forged); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v, %v", name, done, err)
		}
		if workOf(t, w.box) != before {
			t.Errorf("%s: the box was changed", name)
		}
	}
}

func gitIn(t *testing.T, m mirror, args ...string) string {
	t.Helper()
	out, err := m.git(t.Context(), strings.NewReader("x"), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func mktree(t *testing.T, m mirror, lines string) string {
	t.Helper()
	out, err := m.git(t.Context(), strings.NewReader(lines+"\n"), "mktree")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Where the first process is not a box's, as here, nothing is stopped.
func TestHold(t *testing.T) {
	if first, _ := os.ReadFile("/proc/1/comm"); strings.TrimSpace(string(first)) == "agentbox-guest" {
		t.Skip("this would stop the tests")
	}
	release, err := hold(t.Context(), localGuest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}
