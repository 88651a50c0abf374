package snapshot

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/workspace"
)

func TestDiff(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; git mv dir/b.txt dir/c.txt; git commit -qm moved; echo x >>a.txt; printf 'b\000in' >binary; echo n >"$(printf 'new\nline')"; rm .gitignore; ln -s a.txt link`)
	kept, err := Keep(t.Context(), localGuest{}, w.request())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Diff(t.Context(), kept, DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []agentbox.FileChange{{Path: ".gitignore", Status: "deleted", Deleted: 1}, {Path: "a.txt", Status: "modified", Added: 1}, {Path: "binary", Status: "added", Binary: true},
		{Path: "dir/c.txt", Status: "renamed", From: "dir/b.txt"}, {Path: "link", Status: "added", Added: 1}, {Path: "new\nline", Status: "added", Added: 1}}
	if !reflect.DeepEqual(d.Files, want) {
		t.Errorf("%+v", d.Files)
	}
	// What is shown makes of the checkout what the box holds.
	apply := exec.Command("git", "-C", w.repo, "apply", "--index")
	apply.Stdin = strings.NewReader(string(d.Text))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := gitOut(t, w.repo, "write-tree"); got != gitOut(t, kept.Mirror, "rev-parse", kept.Commit+"^{tree}") {
		t.Error("the patch makes another tree")
	}
	if d, err = Diff(t.Context(), kept, DiffOptions{Stat: true, Color: true, Width: 60}); err != nil || !strings.Contains(string(d.Text), "\x1b[32m+") || !strings.Contains(string(d.Text), "6 files changed") {
		t.Errorf("%s, %v", d.Text, err)
	}
}

func TestDiffOfUnbornBranch(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `git init -q repo; git init -q box; : >base; cd box; echo n >new`)
	kept, err := Keep(t.Context(), localGuest{}, w.request())
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Diff(t.Context(), kept, DiffOptions{}); err != nil || len(d.Files) != 1 || d.Files[0].Status != "added" {
		t.Errorf("%+v, %v", d, err)
	}
}

func FuzzParseChanges(f *testing.F) {
	f.Add(":100644 100644 a b M\x00x\x00:100644 100644 a b R100\x00y\x00z\x001\t2\tx\x000\t0\t\x00y\x00z\x00")
	f.Add(":\x00")
	f.Add("-\t-\tbinary\x00")
	f.Fuzz(func(t *testing.T, s string) { parseChanges(s) })
}

func TestPull(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo u >u; git add u; git commit -qm u; echo v >v`)
	pull := func(branch string) error {
		t.Helper()
		kept, err := Keep(t.Context(), localGuest{}, w.request())
		if err != nil {
			t.Fatal(err)
		}
		repo, err := workspace.Describe(t.Context(), w.repo)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Pull(t.Context(), kept, repo, branch, "b", PulledRef("b"))
		if got != branch {
			t.Errorf("%q, not %q", got, branch)
		}
		return err
	}
	at := func(dir, rev string) string { return gitOut(t, dir, "rev-parse", rev) }
	before := state(t, w.repo+"/a.txt") + gitOut(t, w.repo, "status", "--porcelain", "--branch")
	for range 2 {
		if err := pull("work"); err != nil {
			t.Fatal(err)
		}
	}
	if got := gitOut(t, w.repo, "show", "work:v"); got != "v" || before != state(t, w.repo+"/a.txt")+gitOut(t, w.repo, "status", "--porcelain", "--branch") {
		t.Errorf("v is %q, or the checkout has changed", got)
	}
	put := func(dir, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(w.box, "w")
	if err := pull("work"); err != nil { // another commit on top of the same one
		t.Fatal(err)
	}
	gitOut(t, w.repo, "update-ref", "refs/heads/work", at(w.repo, "main")) // behind: nothing is lost by moving it
	if err := pull("work"); err != nil {
		t.Error(err)
	}
	gitOut(t, w.repo, "update-ref", "refs/heads/work", gitOut(t, w.repo, "commit-tree", "-p", "work", "-m", "mine", "work^{tree}"))
	mine := at(w.repo, "work")
	if err := pull("work"); agentbox.CodeOf(err) != agentbox.Conflict || at(w.repo, "work") != mine {
		t.Errorf("a branch with commits of the user's own: %v", err)
	}
	if err := pull("main"); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("the branch that is checked out: %v", err)
	}
	for _, name := range []string{"a..b", "-f", "x.lock", "a b", "work/below"} {
		if err := pull(name); err == nil {
			t.Errorf("a branch %q was made", name)
		}
	}
}

// A pack with what git would act on once it is checked out is not taken; the files come without it.
func TestHostileObjectsAreRefused(t *testing.T) {
	isolateGit(t)
	for name, script := range map[string]string{
		"a .git in a tree":    `b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\tconfig\n' $b | git mktree); t=$(printf '040000 tree %s\t.git\n' $t | git mktree)`,
		"a .GIT in a tree":    `b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\tconfig\n' $b | git mktree); t=$(printf '040000 tree %s\t.GIT\n' $t | git mktree)`,
		"a way up in a tree":  `b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\t..\n' $b | git mktree)`,
		"a path of a module":  `b=$(printf '[submodule "../../x"]\n\tpath = a\n\turl = -uevil\n' | git hash-object -w --stdin); t=$(printf '100644 blob %s\t.gitmodules\n' $b | git mktree)`,
		"an object is absent": `t=$(printf '100644 blob %s\tx\n' 1111111111111111111111111111111111111111 | git mktree --missing)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `base; echo u >u; `+script+`; git update-ref HEAD $(git commit-tree -p HEAD -m evil $t)`)
			kept, err := Keep(t.Context(), localGuest{}, w.request())
			if err != nil {
				t.Fatal(err)
			}
			if kept.Head != w.base || len(kept.Missing) != 1 || gitOut(t, kept.Mirror, "show", kept.Commit+":u") != "u" {
				t.Errorf("%+v", kept)
			}
			if out := gitOut(t, kept.Mirror, "log", "--all", "--format=%s"); strings.Contains(out, "evil") {
				t.Error("the mirror has it")
			}
		})
	}
}
