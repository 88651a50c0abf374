package project

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// Identify returns the project that the checkout at root belongs to. It reads the configuration in
// the git directory, which belongs to the person who cloned the repository. It runs nothing, and
// nothing that the repository contains can change the result: Identify reads and follows no file of
// the work tree, and ignores includes, per-worktree configuration and the user's own configuration.
//
// A git directory elsewhere counts only if it names this checkout as its own, as those of worktrees
// and submodules do. A captured checkout says itself what the original was. Otherwise the checkout
// is a project by itself, named by its path. root may be
// relative.
//
// The error, of code Invalid, means that a directory or a configuration cannot be read. Guessing
// then could give a checkout the approvals of another.
//
// A request (Remembering) identifies each checkout once, so that all of it is about one project.
func Identify(ctx context.Context, root string) (Project, error) {
	m, ok := ctx.Value(memoryKey{}).(*memory)
	if !ok {
		return identify(root)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p, known := m.of[root]
	if known {
		return p, nil
	}
	m.read++
	p, err := identify(root)
	if err == nil {
		m.of[root] = p
	}
	return p, err
}

// Remembering returns the context of a request.
func Remembering(ctx context.Context) context.Context {
	return context.WithValue(ctx, memoryKey{}, &memory{of: map[string]Project{}})
}

type memoryKey struct{}

// memory has the projects that a request has identified, by root.
type memory struct {
	mu   sync.Mutex
	of   map[string]Project
	read int // checkouts, for tests
}

func identify(root string) (Project, error) {
	abs, err := filepath.Abs(root)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Project{}, agentbox.Errorf(agentbox.Invalid, "cannot read directory %s: %w", root, err)
	}
	gitDir, ok := gitDirOf(abs)
	if !ok {
		return Project{Name: abs}, nil
	}
	if name, err := readFile(filepath.Join(gitDir, CapturedFile), maxPointer); err == nil && len(name) > 0 {
		return Project{Name: string(name)}, nil
	}
	config, err := readFile(filepath.Join(gitDir, "config"), maxConfig)
	if errors.Is(err, errNotRegular) || errors.Is(err, fs.ErrNotExist) {
		return Project{Name: abs}, nil
	}
	if err != nil {
		return Project{}, agentbox.Errorf(agentbox.Invalid, "cannot tell which project %s belongs to: %w", abs, err).
			WithHint("git -C %s config --list reads the same file", abs)
	}
	base := gitDir
	if filepath.Base(gitDir) == ".git" {
		base = filepath.Dir(gitDir)
	}
	if name := canonical(originOf(string(config)), base); name != "" {
		return Project{Name: name}, nil
	}
	return Project{Name: base}, nil
}

// CapturedFile is the file in the git directory of a captured checkout (package source) that has the
// name of its project, which may be the path of the original. No repository can contain it.
const CapturedFile = "agentbox-project"

const (
	// In bytes.
	maxConfig  = 16 << 20 // editors leave thousands of branches in a configuration
	maxPointer = 8 << 10  // a path, and a word before it
)

var errNotRegular = errors.New("it is not a regular file")

// readFile reads a regular file. It follows no link and waits for no pipe. A file of more than
// limit bytes is an error.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, errNotRegular
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = agentbox.Errorf(agentbox.Invalid, "%s is larger than %d KiB", path, limit>>10)
	}
	return data, err
}

// gitDirOf finds the directory with the configuration of the checkout at root. ok is false if the
// checkout has none of its own.
func gitDirOf(root string) (dir string, ok bool) {
	entry := filepath.Join(root, ".git")
	info, err := os.Lstat(entry)
	if err != nil {
		return "", false
	}
	if info.IsDir() {
		_, err := os.Lstat(filepath.Join(entry, "commondir"))
		return entry, errors.Is(err, fs.ErrNotExist) // a git directory that borrows another's configuration is not the checkout's own
	}
	dir, err = readPathFile(entry, "gitdir: ")
	if err != nil {
		return "", false
	}
	// A linked worktree's directory has this file; a submodule's does not.
	if back, err := readPathFile(filepath.Join(dir, "gitdir"), ""); err == nil {
		return mainOf(dir, back == entry)
	}
	return dir, worksOn(dir, root)
}

// readPathFile reads a file that holds a path, absolute or relative to the file's directory, and
// resolves it. The result is absolute and clean.
func readPathFile(path, prefix string) (string, error) {
	data, err := readFile(path, maxPointer)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if !ok || to == "" {
		return "", errNotRegular
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(to)) // the last component, .git of a worktree, is compared as it is
	return filepath.Join(parent, filepath.Base(to)), err
}

// mainOf is the main git directory of a linked worktree's, if it lies where git puts it.
func mainOf(dir string, mutual bool) (string, bool) {
	main, err := readPathFile(filepath.Join(dir, "commondir"), "")
	if err != nil || !mutual || filepath.Dir(dir) != filepath.Join(main, "worktrees") {
		return "", false
	}
	return main, true
}

// worksOn reports whether the git directory of a submodule names root as its work tree.
func worksOn(dir, root string) bool {
	config, err := readFile(filepath.Join(dir, "config"), maxConfig)
	if err != nil {
		return false
	}
	to := ""
	for _, s := range git.ParseConfig(string(config)) {
		if s.Key == "core.worktree" {
			to = s.Value
		}
	}
	if to == "" {
		return false
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	real, err := filepath.EvalSymlinks(to)
	return err == nil && real == root
}

// markKey marks the section of a remote that agentbox made for a box. Such a remote may have any
// name, including origin.
const markKey = "agentbox"

// originOf returns the first URL that git fetches from as origin. It returns "" without one, and
// for a remote that agentbox made.
func originOf(config string) (url string) {
	for _, s := range git.ParseConfig(config) {
		switch {
		case s.Bare:
		case s.Key == "remote.origin."+markKey:
			return ""
		case s.Key == "remote.origin.url" && url == "":
			url = s.Value
		}
	}
	return url
}
