package project

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDefaultBranch(t *testing.T) {
	dir := realDir(t)
	up := checkout(t, filepath.Join(dir, "up"), "")
	gitIn(t, up, "checkout", "-q", "-b", "trunk")
	gitIn(t, dir, "clone", "-q", "up", "clone")
	clone := filepath.Join(dir, "clone")
	is := func(root, branch string, want bool) {
		t.Helper()
		if got := IsDefaultBranch(root, branch, false); got != want {
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
	if IsDefaultBranch(up, "main", true) {
		t.Error("a commit that is on no branch is the default one")
	}
}

// What cannot be read does not make a branch the default one.
func TestDefaultBranchUnreadableRefs(t *testing.T) {
	dir := realDir(t)
	checkout(t, filepath.Join(dir, "up"), "")
	gitIn(t, dir, "clone", "-q", "up", "clone")
	clone := filepath.Join(dir, "clone")
	head := filepath.Join(clone, ".git", "refs", "remotes", "origin", "HEAD")
	if err := os.Remove(head); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("develop", head); err != nil { // as old versions of git made it
		t.Fatal(err)
	}
	if IsDefaultBranch(clone, "main", false) {
		t.Error("main is the default of a repository whose origin says develop")
	}
	if err := os.Remove(head); err != nil {
		t.Fatal(err)
	}
	gitIn(t, clone, "pack-refs", "--all")
	if err := os.Remove(filepath.Join(clone, ".git", "packed-refs")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(clone, ".git", "reftable"), 0o700); err != nil { // has refs/remotes/origin/main, say
		t.Fatal(err)
	}
	if IsDefaultBranch(clone, "master", false) {
		t.Error("master is the default of a repository whose refs cannot be read")
	}
	if err := os.Remove(filepath.Join(clone, ".git", "reftable")); err != nil {
		t.Fatal(err)
	}
	// Tables of git whose origin/HEAD is a branch beside origin's.
	if err := os.CopyFS(filepath.Join(clone, ".git", "reftable"), os.DirFS("../git/testdata/reftable/small")); err != nil {
		t.Fatal(err)
	}
	if IsDefaultBranch(clone, "main", false) || IsDefaultBranch(clone, "master", false) {
		t.Error("origin/HEAD of the table was not read")
	}
	if err := os.RemoveAll(filepath.Join(clone, ".git", "reftable")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(clone, ".git", "reftable"), os.DirFS("../git/testdata/reftable/plain")); err != nil {
		t.Fatal(err)
	}
	if !IsDefaultBranch(clone, "master", false) || IsDefaultBranch(clone, "x", false) {
		t.Error("origin has no main in the table")
	}
}
