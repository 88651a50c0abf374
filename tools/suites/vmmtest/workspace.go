package vmmtest

import (
	"os"
	"path/filepath"
)

// oddNames are files of the tree that becomes a workspace; each holds its own name.
var oddNames = []string{"plain", "sp ace", "new\nline", "\xff\xfe not UTF-8", "-dash", "Case", "case", "dir/sub/deep", "it's \"quoted\""}

// makeTree makes a tree that is hard to copy: names of any bytes, links of both kinds, empty
// directories, modes.
func (r *rig) makeTree() string {
	r.Helper()
	tree := r.path("tree")
	for _, name := range oddNames {
		path := filepath.Join(tree, name)
		r.ok(os.MkdirAll(filepath.Dir(path), 0o755))
		r.ok(os.WriteFile(path, []byte(name), 0o644))
	}
	r.ok(os.Mkdir(filepath.Join(tree, "empty"), 0o755))
	r.ok(os.Symlink("plain", filepath.Join(tree, "symlink")))
	r.ok(os.Link(filepath.Join(tree, "plain"), filepath.Join(tree, "hardlink")))
	r.ok(os.WriteFile(filepath.Join(tree, "script"), []byte("#!/bin/sh\n"), 0o755))
	return tree
}

// newWorkspace makes a workspace of the spec's size, with a tree's files or empty, and returns its
// path.
func (r *rig) newWorkspace(name, tree string) string {
	r.Helper()
	path := r.path(name)
	r.ok(r.Driver.NewWorkspace(r.ctx, path, tree, r.Spec.Disk))
	return path
}

// testWorkspaces checks workspaces from outside: what may exist before, and what a failure leaves.
func testWorkspaces(r *rig) {
	tree := r.makeTree()
	path := r.newWorkspace("filled", tree)
	r.ok(r.Driver.CopyWorkspace(r.ctx, r.path("copy"), path))
	if err := r.Driver.CopyWorkspace(r.ctx, r.path("copy"), path); err == nil {
		r.Error("a workspace was copied over another")
	}
	if err := r.Driver.CopyWorkspace(r.ctx, r.path("copy2"), r.path("missing")); err == nil {
		r.Error("a workspace that does not exist was copied")
	}
	r.wantNoFile("copy2")

	r.newWorkspace("empty", "")
	r.newWorkspace("empty", tree) // fills the one that exists
	if err := r.Driver.NewWorkspace(r.ctx, r.path("failed"), r.path("no such tree"), r.Spec.Disk); err == nil {
		r.Error("a workspace was made from a tree that does not exist")
	}
	r.wantNoFile("failed")
	r.newWorkspace("refilled", "")
	if err := r.Driver.NewWorkspace(r.ctx, r.path("refilled"), r.path("no such tree"), r.Spec.Disk); err == nil {
		r.Error("a workspace was filled from a tree that does not exist")
	}
	if _, err := os.Stat(r.path("refilled")); err != nil {
		r.Errorf("the empty workspace is gone: %v", err)
	}
}

func (r *rig) wantNoFile(name string) {
	r.Helper()
	if _, err := os.Lstat(r.path(name)); err == nil {
		r.Errorf("%s was left behind", name)
	}
}

// wantTree checks a workspace of makeTree's from inside. It also writes as the box's user, who must
// own the files.
func (r *rig) wantTree(g Guest) {
	r.Helper()
	for _, name := range oddNames {
		r.want(g, Workspace, name, name)
	}
	r.want(g, Workspace, "symlink", "plain")
	r.want(g, Workspace, "hardlink", "plain")
	r.put(g, Workspace, "plain", "changed") // which a guest may do only as the owner
	r.want(g, Workspace, "hardlink", "changed")
	r.put(g, Workspace, "empty/new", "new")
}
