package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox/git"
)

// nested copies the submodule or nested repository at path in the work tree. If it cannot be
// copied, its directory stays empty, with a note: the box is still useful without it.
func (s *stager) nested(ctx context.Context, outer Repo, to target, path string) error {
	src, dst := filepath.Join(outer.Root, path), filepath.Join(to.root, path)
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return unwritable(dst, err)
	}
	if err := s.rootDir(src, dst); err != nil {
		return err
	}
	repo, err := s.openNested(ctx, src)
	if err != nil {
		s.note("%q is left empty: %v", path, err)
		return nil
	}
	if repo.GitDir == "" { // a submodule that is not checked out
		return nil
	}
	// This also keeps a repository that leads to itself from being copied endlessly.
	if repo.CommonDir == outer.CommonDir || s.seen[repo.GitDir] {
		s.note("%q is left out: it is another work tree of the same repository, with a box of its own", path)
		return nil
	}
	// A submodule's git directory keeps its place below the outer one, where git looks for it.
	inner := target{root: dst, git: filepath.Join(dst, ".git")}
	if rel, err := filepath.Rel(outer.GitDir, repo.GitDir); err == nil && strings.HasPrefix(rel, "modules/") {
		inner.git = filepath.Join(to.git, rel)
		if inner.worktree, err = filepath.Rel(inner.git, dst); err != nil {
			return unwritable(dst, err)
		}
	}
	return s.repo(ctx, repo, inner)
}

// openNested finds the git directory of a work tree as git does for a known one. GitDir is ""
// when root is not a repository. A git directory outside of the checkout is an error.
func (s *stager) openNested(ctx context.Context, root string) (Repo, error) {
	gitDir := filepath.Join(root, ".git")
	fi, err := os.Lstat(gitDir)
	switch {
	case gone(err):
		return Repo{}, nil
	case err != nil:
		return Repo{}, err
	case !fi.IsDir() && !fi.Mode().IsRegular():
		return Repo{}, errors.New("its .git is neither a directory nor a file, and is not followed")
	case !fi.IsDir():
		if gitDir, err = follow(gitDir, "gitdir: ", root); err != nil {
			return Repo{}, err
		}
	}
	return s.openGitDir(ctx, root, gitDir)
}

// openGitDir checks a git directory and everything it points to before any of it is read.
func (s *stager) openGitDir(ctx context.Context, root, gitDir string) (Repo, error) {
	repo := Repo{Root: root, GitDir: gitDir, CommonDir: gitDir}
	if err := s.inside(gitDir); err != nil {
		return Repo{}, err
	}
	if _, err := os.Lstat(filepath.Join(gitDir, "HEAD")); err != nil {
		return Repo{}, err
	}
	if common := filepath.Join(gitDir, "commondir"); exists(common) {
		var err error
		if repo.CommonDir, err = follow(common, "", gitDir); err == nil {
			err = s.inside(repo.CommonDir)
		}
		if err != nil {
			return Repo{}, err
		}
	}
	_, err := s.stores(ctx, repo)
	return repo, err
}

// inside fails unless a git directory is part of the staged checkout: below its root or in its
// own git directories, after all links are resolved.
func (s *stager) inside(gitDir string) error {
	real, err := filepath.EvalSymlinks(gitDir)
	if err != nil {
		return err
	}
	if real == gitDir {
		for _, dir := range s.area() {
			if within(dir, real) || dir == real {
				return checkPlain(real)
			}
		}
	}
	return fmt.Errorf("its git directory %s is not part of this checkout", gitDir)
}

func (s *stager) area() []string { return []string{s.top.Root, s.top.GitDir, s.top.CommonDir} }

// follow reads the path in a pointer file such as .git or commondir. prefix precedes the path;
// the final newline is optional. A relative path is joined to base. The result is absolute and
// clean, but need not exist.
func follow(file, prefix, base string) (string, error) {
	data, err := git.ReadPlain(file, maxPointer)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(data), "\n"), prefix)
	if !ok || path == "" {
		return "", errors.New(file + " does not say where the git directory is")
	}
	return absolute(path, base), nil
}

// modulesBelow copies the git directories of submodules that are not checked out, so that the
// box can check them out without a network. It reads gitDir/rel and writes dst/rel.
func (s *stager) modulesBelow(ctx context.Context, gitDir, dst, rel string, depth int) error {
	entries, err := git.ReadDir(filepath.Join(gitDir, rel))
	if gone(err) || depth > maxNesting {
		return nil
	}
	if err != nil {
		return unreadable(filepath.Join(gitDir, rel), err)
	}
	for _, e := range entries {
		rel := rel + "/" + e.Name()
		path := filepath.Join(gitDir, rel)
		if !e.IsDir() || s.seen[path] {
			continue
		}
		if !exists(filepath.Join(path, "HEAD")) { // a submodule's name may contain slashes
			if err := s.modulesBelow(ctx, gitDir, dst, rel, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := s.module(ctx, path, filepath.Join(dst, rel), depth); err != nil {
			return err
		}
	}
	return nil
}

// module copies one git directory with everything nested in it. Its core.worktree is relative
// and stays correct, because the copy has the same layout.
func (s *stager) module(ctx context.Context, src, dst string, depth int) error {
	s.seen[src] = true
	repo, err := s.openGitDir(ctx, src, src)
	if err != nil {
		s.note("the submodule kept in %s is left out: %v", src, err)
		return nil
	}
	if _, err := s.gitDir(ctx, repo, target{git: dst, worktree: keepWorktree}); err != nil {
		return err
	}
	if err := s.objects(ctx, repo, dst); err != nil {
		return err
	}
	return s.modulesBelow(ctx, src, dst, "modules", depth+1)
}
