package project

import (
	"path/filepath"
	"testing"
)

func TestTheDefaultBranchIsWhatOriginSays(t *testing.T) {
	dir := realDir(t)
	up := checkout(t, filepath.Join(dir, "up"), "")
	gitIn(t, up, "checkout", "-q", "-b", "trunk")
	gitIn(t, dir, "clone", "-q", "up", "clone")
	clone := filepath.Join(dir, "clone")
	is := func(root, branch string, want bool) {
		t.Helper()
		if got := Default(root, branch, false); got != want {
			t.Errorf("%s is the default of %s: %v", branch, filepath.Base(root), got)
		}
	}
	is(clone, "trunk", true)
	is(clone, "main", false)
	// A branch called as a remote one, a tag, and a file of the tree change nothing.
	gitIn(t, clone, "checkout", "-q", "-b", "origin/HEAD")
	gitIn(t, clone, "tag", "main")
	is(clone, "origin/HEAD", false)
	gitIn(t, clone, "worktree", "add", "-q", "../tree")
	is(filepath.Join(dir, "tree"), "tree", false)
	is(filepath.Join(dir, "tree"), "trunk", true)
	gitIn(t, clone, "remote", "set-head", "origin", "main")
	is(clone, "main", true)
	is(clone, "trunk", false)
	gitIn(t, clone, "remote", "set-head", "origin", "--delete")
	is(clone, "main", true)
	is(clone, "master", false) // origin has main
	gitIn(t, clone, "pack-refs", "--all")
	is(clone, "master", false)
	is(up, "main", true)
	is(up, "trunk", false)
	if Default(up, "main", true) {
		t.Error("a commit that is on no branch is the default one")
	}
}
