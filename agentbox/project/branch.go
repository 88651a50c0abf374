package project

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// usual are the names of a default branch where nothing on this host says another.
var usual = []string{"main", "master"}

// Default tells whether a branch of the checkout at root is the project's default one, whose setup
// results serve every branch.
//
// That is what refs/remotes/origin/HEAD of the git directory names, which clone writes and `git
// remote set-head` changes. Where the project has an origin and no such ref, main is, or master
// where origin has no main: refs of origin, which no checkout of a branch and no commit changes. A
// project without an origin has no branches of others: all of it is its owner's, and main or master
// is the default one. Nothing that a branch contains is looked at. A commit that is on no branch is
// nobody's default. root need not be absolute; branch is without refs/heads/. It runs nothing, and
// what cannot be read is not the default.
func Default(root, branch string, detached bool) bool {
	abs, err := filepath.EvalSymlinks(root)
	if err != nil || detached || branch == "" {
		return false
	}
	gitDir, ok := gitDirOf(abs)
	if !ok {
		return slices.Contains(usual, branch)
	}
	head, err := readFile(filepath.Join(gitDir, "refs", "remotes", "origin", "HEAD"), maxPointer)
	if err == nil {
		name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/remotes/origin/")
		return ok && name == branch
	}
	config, err := readFile(filepath.Join(gitDir, "config"), maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if originOf(string(config)) == "" {
		return slices.Contains(usual, branch)
	}
	return branch == usual[0] || branch == usual[1] && !hasRemote(gitDir, usual[0])
}

// hasRemote tells whether origin was seen to have a branch.
func hasRemote(gitDir, branch string) bool {
	ref := "refs/remotes/origin/" + branch
	if _, err := readFile(filepath.Join(gitDir, filepath.FromSlash(ref)), maxPointer); err == nil {
		return true
	}
	packed, err := readFile(filepath.Join(gitDir, "packed-refs"), maxConfig)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || strings.Contains(string(packed), " "+ref+"\n")
}
