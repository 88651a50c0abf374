package project

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox/git"
)

// usualBranches are names of default branches, for when nothing on this host says otherwise.
var usualBranches = []string{"main", "master"}

// IsDefaultBranch reports whether a branch of the checkout at root is the project's default branch,
// whose setup results serve every branch.
//
// The default branch is the one that refs/remotes/origin/HEAD of the git directory names, which
// clone writes and `git remote set-head` changes. If the project has an origin but no such ref, it
// is main, or master if origin has no main. These are refs of origin, which no commit and no
// checkout of a branch changes. A project without an origin belongs to its owner alone: both main
// and master count as its default branch.
//
// A detached commit is never on the default branch, and neither is any branch if a ref cannot be
// read. root may be relative; branch comes without refs/heads/. IsDefaultBranch starts no program.
func IsDefaultBranch(root, branch string, detached bool) bool {
	abs, err := filepath.EvalSymlinks(root)
	if err != nil || detached || branch == "" {
		return false
	}
	gitDir, ok := gitDirOf(abs)
	if !ok {
		return slices.Contains(usualBranches, branch)
	}
	if _, err := os.Lstat(filepath.Join(gitDir, "reftable")); !absent(err) {
		return isDefaultInTables(gitDir, branch)
	}
	head, err := readFile(filepath.Join(gitDir, "refs", "remotes", "origin", "HEAD"), maxPointer)
	if err == nil {
		name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/remotes/origin/")
		return ok && name == branch
	}
	config, configErr := readFile(filepath.Join(gitDir, "config"), maxConfig)
	switch {
	case !absent(err) || configErr != nil && !absent(configErr):
		return false
	case originOf(string(config)) == "":
		return slices.Contains(usualBranches, branch)
	}
	return branch == usualBranches[0] || branch == usualBranches[1] && !hasRemote(gitDir, usualBranches[0])
}

func isDefaultInTables(gitDir, branch string) bool {
	refs, err := git.ReadReftables(filepath.Join(gitDir, "reftable"))
	config, configErr := readFile(filepath.Join(gitDir, "config"), maxConfig)
	if err != nil || configErr != nil && !absent(configErr) {
		return false
	}
	if head := refs.Symbolic["refs/remotes/origin/HEAD"]; head != "" {
		return head == "refs/remotes/origin/"+branch
	}
	if originOf(string(config)) == "" {
		return slices.Contains(usualBranches, branch)
	}
	main := refs.Objects["refs/remotes/origin/"+usualBranches[0]]
	return branch == usualBranches[0] || branch == usualBranches[1] && main == ""
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// hasRemote reports whether origin had a branch at the last fetch.
func hasRemote(gitDir, branch string) bool {
	ref := "refs/remotes/origin/" + branch
	if _, err := readFile(filepath.Join(gitDir, filepath.FromSlash(ref)), maxPointer); err == nil {
		return true
	}
	packed, err := readFile(filepath.Join(gitDir, "packed-refs"), maxConfig)
	return err != nil && !absent(err) || strings.Contains(string(packed), " "+ref+"\n")
}
