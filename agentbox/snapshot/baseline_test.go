package snapshot

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox/workspace"
)

// dirty is a checkout with uncommitted changes of its user's, and a box that began with them.
func dirty(t *testing.T, in, inBox string) (world, Request) {
	t.Helper()
	isolateGit(t)
	w := newWorld(t, `base; cd ../repo; `+in+`; rm -rf ../box; cp -a . ../box`)
	req := w.request()
	req.Baseline = filepath.Join(w.dir, "begin")
	before := gitOut(t, w.box, "status", "--porcelain=v2")
	if err := RecordBaseline(t.Context(), w.box, w.base, req.Baseline); err != nil {
		t.Fatal(err)
	}
	if after := gitOut(t, w.box, "status", "--porcelain=v2"); after != before {
		t.Errorf("the staged tree has changed: %s", after)
	}
	cmd := exec.Command("sh", "-ec", inBox)
	cmd.Dir = w.box
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return w, req
}

const mine = `seq 20 >long; git add long; git commit -qm long; git rev-parse HEAD >../base
	sed -i s/^1$/mine/ long; echo mine >untracked; git add -N untracked; echo staged >staged; git add staged; git rm -q dir/b.txt`

func paths(d Difference) string {
	var all []string
	for _, f := range d.Files {
		all = append(all, f.Status+" "+f.Path)
	}
	return strings.Join(all, ", ")
}

func TestBaselineIsNotBoxWork(t *testing.T) {
	for _, c := range []struct{ name, in, box, changes, files, long string }{
		{"nothing done", mine, `true`, "", "", ""},
		{"another file", mine, `echo new >new`, "added new", "new", ""},
		{"other lines of the same file", mine, `sed -i s/^20$/box/ long`, "modified long", "long", "box"},
		{"all of it committed in the box", mine, `git config user.name b; git config user.email b; git add -A; git commit -qm b; echo new >new`, "added new", "new", "mine"},
		{"an untracked file of the user's removed", mine, `rm untracked`, "deleted untracked", "", ""},
		{"a file that git was told to overlook", `git update-index --assume-unchanged a.txt; echo mine >>a.txt`, `echo new >new`, "added new", "new", ""},
		{"files that git was told to skip", `git update-index --skip-worktree a.txt dir/b.txt; rm dir/b.txt; echo mine >>a.txt`, `echo new >new`, "added new", "new", ""},
		{"files outside of a sparse checkout", `git sparse-checkout set --no-cone /dir/; mkdir other; echo mine >other/o; echo mine >a.txt`, `echo new >new`, "added new", "new", ""},
		{"everything was committed", `true`, `echo new >new`, "added new", "new", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, req := dirty(t, c.in, c.box)
			kept, err := Keep(t.Context(), localGuest{}, req)
			if err != nil {
				t.Fatal(err)
			}
			d, err := Diff(t.Context(), kept, DiffOptions{})
			if err != nil || paths(d) != c.changes {
				t.Errorf("%q, not %q: %v", paths(d), c.changes, err)
			}
			if got := gitOut(t, kept.Mirror, "diff-tree", "-r", "--name-only", kept.Head, kept.Commit); got != c.files || kept.Mixed {
				t.Errorf("the last commit has %q, not %q; %+v", got, c.files, kept)
			}
			if nothing := c.changes == ""; kept.Nothing() != nothing {
				t.Errorf("nothing: %v", kept.Nothing())
			}
			if c.long != "" {
				long := gitOut(t, w.repo, "show", kept.Ref+":long")
				if !strings.Contains(long, c.long) || c.long == "box" && strings.Contains(long, "mine") {
					t.Errorf("%q", long)
				}
			}
			// The difference fits the checkout, which has what the user did.
			if len(d.Text) > 0 {
				apply := exec.Command("git", "-C", w.repo, "apply", "--check")
				apply.Stdin = strings.NewReader(string(d.Text))
				if out, err := apply.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			}
		})
	}
}

func TestBothSidesChangedSameLines(t *testing.T) {
	_, req := dirty(t, mine, `sed -i s/^mine$/both/ long`)
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil || !kept.Mixed {
		t.Fatalf("%+v %v", kept, err)
	}
	if got := gitOut(t, kept.Mirror, "show", kept.Commit+":long"); !strings.HasPrefix(got, "both") {
		t.Errorf("%q", got)
	}
}

// After a power loss the pack may be empty, as nothing waited for the disk: the work is kept all
// the same, and not told apart.
func TestDamagedBaseline(t *testing.T) {
	w, req := dirty(t, `echo mine >mine`, `echo new >new`)
	if err := os.Truncate(filepath.Join(req.Baseline, packFile), 0); err != nil {
		t.Fatal(err)
	}
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil || !kept.Mixed || kept.Files != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	gitOut(t, w.repo, "show", kept.Commit+":mine", kept.Commit+":new")
}

func TestBaselineOfUnbornBranch(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `git init -q repo; git init -q box; : >base; cd repo; echo u >u; cp u ../box`)
	req := w.request()
	req.Baseline = filepath.Join(w.dir, "begin")
	if err := RecordBaseline(t.Context(), w.box, "", req.Baseline); err != nil {
		t.Fatal(err)
	}
	gitOut(t, w.box, "update-index", "--add", "--cacheinfo", "100644,"+gitOut(t, w.box, "hash-object", "-w", "u")+",v")
	kept, err := Keep(t.Context(), localGuest{}, req)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Diff(t.Context(), kept, DiffOptions{}); err != nil || kept.Nothing() != (paths(d) == "") {
		t.Errorf("%q %v %+v", paths(d), err, kept)
	}
}

// What a repository has set up to be run on its files is not run.
func TestBaselineRunsNothing(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; touch ../canary.sh; c="touch $PWD/../canary; cat"
		for k in filter.x.clean filter.x.process core.fsmonitor core.hooksPath; do git config $k "$c"; done; git config filter.x.required true
		echo '* filter=x' >.gitattributes; echo new >new`)
	if err := RecordBaseline(t.Context(), w.box, w.base, filepath.Join(w.dir, "begin")); err != nil {
		t.Log(err) // it may well fail, and must not run it
	}
	if exists(filepath.Join(w.dir, "canary")) {
		t.Error("a filter was run")
	}
}

func TestBaselineTooLarge(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; truncate -s 300M big`)
	dir := filepath.Join(w.dir, "begin")
	if err := RecordBaseline(t.Context(), w.box, w.base, dir); err != nil || exists(dir) {
		t.Errorf("%v", err)
	}
	if _, err := workspace.RecordBaseline(t.Context(), filepath.Join(w.dir, "none"), "", dir, io.Discard); err == nil {
		t.Error("a tree that is not there was looked at")
	}
}

// The work of a task that did nothing is what it began with, committed or not.
func TestBeginning(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, "base")
	for _, dirty := range []bool{false, true} {
		if dirty {
			if err := os.WriteFile(filepath.Join(w.repo, "dirty"), []byte("dirty"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := Beginning(t.Context(), w.mirror, w.repo, TaskRef("t-1"))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := Checkout(t.Context(), kept, "main", dir, ""); err != nil {
			t.Fatal(err)
		}
		if got, want := gitOut(t, dir, "status", "--porcelain"), gitOut(t, w.repo, "status", "--porcelain"); got != want || kept.Head != gitOut(t, dir, "rev-parse", "HEAD") {
			t.Errorf("dirty %v: %q, not %q: %+v", dirty, got, want, kept)
		}
	}
	if _, err := Beginning(t.Context(), w.mirror, t.TempDir(), TaskRef("t-1")); err == nil {
		t.Error("of nothing")
	}
}
