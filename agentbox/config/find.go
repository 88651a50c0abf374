package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// names are the files Find looks for, the strongest first.
var names = []string{"agentbox.yaml", ".devcontainer/devcontainer.json", ".devcontainer.json"}

// Find looks for the configuration that governs dir: agentbox.yaml in dir or the nearest directory
// above it up to the repository's root, else a devcontainer.json likewise. path is "" when there is
// none. Outside a repository only dir itself is looked at, so that nobody else's file in /tmp or
// /home governs it. dir need not be absolute; path and root are, without symbolic links. Errors
// have code Invalid. Each agentbox.yaml up to the root is preferred to any devcontainer.json:
// somebody who wrote one wants it, wherever the command is run.
func Find(dir string) (path, root string, err error) {
	dir, err = realDir(dir)
	if err != nil {
		return "", "", err
	}
	dirs := upward(dir)
	root = dirs[len(dirs)-1]
	// All directories for agentbox.yaml first, and only then for the other files.
	for _, group := range [][]string{names[:1], names[1:]} {
		for _, d := range dirs {
			for _, name := range group {
				path := filepath.Join(d, filepath.FromSlash(name))
				if _, err := os.Lstat(path); err == nil {
					return path, root, nil
				} else if !errors.Is(err, fs.ErrNotExist) && !notDir(err) {
					return "", "", agentbox.Errorf(agentbox.Invalid, "cannot look for %s: %w", path, err)
				}
			}
		}
	}
	return "", root, nil
}

// realDir is dir, absolute and without symbolic links, so that walking upward sees real parents.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "cannot read directory %s: %w", dir, err)
	}
	if fi, err := os.Stat(abs); err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "cannot read directory %s: %w", dir, err)
	} else if !fi.IsDir() {
		return "", agentbox.Errorf(agentbox.Invalid, "%s is not a directory", dir)
	}
	return abs, nil
}

// upward lists dir and the directories above it up to the one that holds .git; only dir when none
// does. A .git that is a file counts, too: worktrees and submodules have one, and are repositories
// of their own here. The root of a repository is the last of the list.
func upward(dir string) []string {
	var dirs []string
	for d := dir; ; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return dirs
		}
		if d == filepath.Dir(d) {
			return []string{dir}
		}
	}
}
