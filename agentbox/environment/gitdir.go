package environment

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

// A git directory names programs that git runs: a box that could write into one here would run
// them. So nothing of a box comes into one, or becomes one, unless the user says so.

// isGit tells whether a name is that of a git directory, also where file systems ignore case.
func isGit(name string) bool { return strings.EqualFold(name, ".git") }

// inGit tells whether a path is a git directory or leads into one.
func inGit(path string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if isGit(part) {
			return true
		}
	}
	return false
}

// checkGit fails when a copy out of a box reads from a git directory or writes into one. dir is
// where the copy goes, name what it becomes there. dir is resolved first, as a link may lead into a
// git directory; it need not exist. The error has code Invalid.
func checkGit(remote, dir, name string) error {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // which is reported better by what opens it
		return err
	}
	if inGit(remote) || inGit(real) || inGit(name) {
		return agentbox.Errorf(agentbox.Invalid, "%s would be copied out of a git directory or into one, and git on this machine acts on what is there", remote).
			WithHint("if you trust what the box wrote: agentbox cp --git; commits come without that: agentbox pull")
	}
	return nil
}
