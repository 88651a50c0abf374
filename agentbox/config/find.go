package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentbox/agentbox"
)

// names lists the files that find looks for, in order of precedence.
var names = []string{"agentbox.yaml", ".devcontainer/devcontainer.json", ".devcontainer.json"}

// find returns the configuration that governs dir: the agentbox.yaml in dir or in the nearest
// directory above it, up to the repository's root; otherwise a devcontainer.json found the same
// way. Any agentbox.yaml takes precedence over every devcontainer.json, because it was written
// for agentbox. Outside a repository only dir itself is searched, so that another user's file in
// /tmp or /home has no effect. path is "" if there is no configuration. dir may be relative;
// path and root are absolute, without symbolic links. Errors have code Invalid.
//
// With a name, devcontainer, it is .devcontainer/NAME/devcontainer.json alone that it looks for, and
// a name that no directory has is an error.
func find(dir, devcontainer string) (path, root string, err error) {
	dir, err = realDir(dir)
	if err != nil {
		return "", "", err
	}
	dirs := parentDirs(dir)
	root = dirs[len(dirs)-1]
	// Search all directories for agentbox.yaml before looking for the other files.
	groups := [][]string{names[:1], names[1:]}
	if devcontainer != "" {
		if !filepath.IsLocal(devcontainer) || filepath.Base(devcontainer) != devcontainer {
			return "", "", agentbox.Errorf(agentbox.Invalid, "%q is not the name of a folder in .devcontainer", agentbox.Clip(devcontainer))
		}
		groups = [][]string{{".devcontainer/" + devcontainer + "/devcontainer.json"}}
	}
	for _, group := range groups {
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
	if devcontainer != "" {
		return "", "", agentbox.Errorf(agentbox.Invalid, "there is no .devcontainer/%s/devcontainer.json", devcontainer).WithHint("there are: %s", orNone(devcontainerNames(dirs)))
	}
	return "", root, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return joinSome(names)
}

// MayName tells whether the configuration that governs dir may have a word in it, without parsing it:
// an escape may spell any word.
func MayName(dir, word string) bool {
	path, _, err := find(dir, "")
	if err != nil || path == "" {
		return false
	}
	data, err := readFile(path)
	return err == nil && (bytes.Contains(data, []byte(word)) || bytes.ContainsRune(data, '\\'))
}

// Devcontainers returns the NAMEs that a Place in dir can have, sorted.
func Devcontainers(dir string) []string {
	dir, err := realDir(dir)
	if err != nil {
		return nil
	}
	return devcontainerNames(parentDirs(dir))
}

// maxListed bounds how many entries of a .devcontainer directory are looked at.
const maxListed = 1000

// devcontainerNames returns the NAMEs of all .devcontainer/NAME/devcontainer.json in dirs, sorted.
func devcontainerNames(dirs []string) []string {
	var names []string
	for _, dir := range dirs {
		d, err := os.Open(filepath.Join(dir, ".devcontainer"))
		if err != nil {
			continue
		}
		entries, _ := d.ReadDir(maxListed) // what cannot be read has none
		_ = d.Close()                      // it was only read
		for _, e := range entries {
			if _, err := os.Lstat(filepath.Join(d.Name(), e.Name(), "devcontainer.json")); err == nil && e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names
}

// realDir is dir as an absolute path without links, so that walking upward sees its real parents.
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
