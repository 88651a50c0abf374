package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// names lists the files that Find looks for, in order of precedence.
var names = []string{"agentbox.yaml", ".devcontainer/devcontainer.json", ".devcontainer.json"}

// Find returns the configuration that governs dir: the agentbox.yaml in dir or in the nearest
// directory above it, up to the repository's root; otherwise a devcontainer.json found the same
// way. Any agentbox.yaml takes precedence over every devcontainer.json, because it was written
// for agentbox. Outside a repository only dir itself is searched, so that another user's file in
// /tmp or /home has no effect. path is "" if there is no configuration. dir may be relative;
// path and root are absolute, without symbolic links. Errors have code Invalid.
func Find(dir string) (path, root string, err error) {
	dir, err = realDir(dir)
	if err != nil {
		return "", "", err
	}
	dirs := parentDirs(dir)
	root = dirs[len(dirs)-1]
	// Search all directories for agentbox.yaml before looking for the other files.
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

// realDir returns dir as an absolute path without symbolic links, so that walking upward sees
// its real parents.
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

// parentDirs returns dir and its parents up to the one that holds .git, the repository's root,
// which comes last. Without a .git it returns dir alone. A .git file counts: worktrees and
// submodules have one, and are treated as repositories of their own.
func parentDirs(dir string) []string {
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
