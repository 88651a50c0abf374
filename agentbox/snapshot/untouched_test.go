package snapshot

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"agentbox/agentbox/environment"
)

func TestUntouched(t *testing.T) {
	isolateGit(t)
	for _, c := range []struct {
		box  string
		same bool
	}{
		{`true`, true}, {`touch a.txt`, true}, {`echo x >x.o`, true}, {`git checkout -q old`, false}, {`git branch another`, true},
		{`echo x >>a.txt`, false}, {`echo x >x`, false}, {`chmod +x a.txt`, false}, {`git rm -q --cached a.txt`, true},
		{`git commit -q --allow-empty -m x`, false}, {`echo x >>a.txt; git stash -q`, false},
		{`git commit -q --allow-empty -m y; git branch b; git reset -q --hard HEAD~1`, false}, {`rm -rf .git`, false}, {`: >.git/index`, false},
		{`git update-index --assume-unchanged a.txt; echo x >>a.txt`, false}, {`git update-index --skip-worktree a.txt; echo x >>a.txt`, false},
		{`git worktree add -q ../away; echo x >../away/x`, false}, {`mkdir x.o; git init -q x.o; echo x >x.o/x`, false}, {`git checkout -q --detach; git commit -q --allow-empty -m left; git checkout -q main`, false},
		{`git tag t`, true}, {`git tag -a -m t t $(git commit-tree -m x HEAD^{tree})`, false},
		{`git sparse-checkout set dir`, true}, {`git sparse-checkout set dir; mkdir x; echo x >x/x`, false},
	} {
		w := newWorld(t, `base; cd ../repo; git branch old HEAD~1; git commit -q --allow-empty -m x; git branch unmerged; git reset -q --hard HEAD~1; rm -rf ../box; cp -a . ../box`)
		cmd := exec.Command("sh", "-ec", c.box)
		cmd.Dir = w.box
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		req := w.request()
		req.SkipUntouched = true
		kept, err := Keep(t.Context(), nativeGuest{left: new(string)}, req)
		if err != nil || kept.Nothing() != c.same {
			t.Errorf("%s: %+v, %v", c.box, kept, err)
		}
	}
}

// A commit that merely lies in the checkout goes with its next git gc.
func TestCommitWithoutRefIsBoxWork(t *testing.T) {
	w := newWorld(t, `base`)
	cmd := exec.Command("sh", "-ec", `git commit -q --allow-empty -m x; git branch b; git reset -q --hard HEAD~1; git -C ../repo fetch -q ../box b`)
	cmd.Dir = w.box
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, quick := range []bool{true, false} {
		req := w.request()
		req.SkipUntouched = quick
		kept, err := Keep(t.Context(), nativeGuest{left: new(string)}, req)
		if err != nil || len(kept.OtherRefs) != 1 {
			t.Errorf("quick %v: %+v, %v", quick, kept, err)
		}
	}
}

// counting is a box that tells how often it was asked for anything.
type counting struct {
	nativeGuest
	n int
}

func (c *counting) Exec(ctx context.Context, cmd environment.Command) (environment.Status, error) {
	c.n++
	return c.nativeGuest.Exec(ctx, cmd)
}

// What was uncommitted when the box began is no change, and is told at a glance: one question.
func TestUntouchedWithBaseline(t *testing.T) {
	for _, c := range []struct {
		in, box string
		same    bool
	}{
		{mine, `true`, true}, {mine, `touch long`, true}, {mine, `echo mine >untracked`, true}, {`echo new >new`, `git branch b`, true},
		{mine, `echo x >>long`, false}, {mine, `echo box >untracked`, false}, {mine, `rm untracked`, false}, {mine, `echo x >x`, false}, {mine, `rm untracked; echo mine >other`, false},
		{mine, `git config user.name b; git config user.email b; git add -A; git commit -qm b`, false}, {mine, `chmod +x untracked`, false}, {`echo x >>a.txt`, `git config user.name b; git config user.email b; git stash -q`, false},
		{mine, `git update-index --assume-unchanged a.txt; echo x >>a.txt`, false}, {`git update-index --assume-unchanged a.txt; echo x >>a.txt`, `echo y >>a.txt`, false},
		{mine, `git update-index --skip-worktree a.txt; echo x >>a.txt`, false}, {`git update-index --skip-worktree a.txt; echo x >>a.txt`, `echo y >>a.txt`, false},
		{`echo new >new`, `: >.git/index`, false}, {`echo new >new`, `mkdir sub; git -C sub init -q; echo x >sub/x`, false}, {`echo new >new`, `rm new; mkdir new; echo new >new/new`, false},
	} {
		w, req := dirty(t, strings.Replace(c.in, "git add -N untracked; ", "", 1), c.box) // which the box's program leaves to the script
		req.SkipUntouched, req.Dir = true, w.box
		box := &counting{nativeGuest: nativeGuest{left: new(string)}}
		kept, err := Keep(t.Context(), box, req)
		if err != nil || kept.Nothing() && !c.same || c.same && box.n != 1 {
			t.Errorf("%s, %s: %+v, %v, asked %d times", c.in, c.box, kept, err, box.n)
		}
		// Looked at closely it is the same.
		req.SkipUntouched = false
		if close, err := Keep(t.Context(), localGuest{}, req); err != nil || close.Nothing() != kept.Nothing() {
			t.Errorf("%s, %s: at a glance %v, closely %v, %v", c.in, c.box, kept.Nothing(), close.Nothing(), err)
		}
	}
}
