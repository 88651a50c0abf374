package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

// A checkout's .git is data too: it may have come in an archive, or out of a box. What it says is
// believed of the checkout itself only. Where it leads to another directory, that directory must
// name the checkout in turn, which nobody can write who cannot write there.

// maxPointer bounds files that hold one path or one ref, maxRefs packed-refs, which some
// repositories have a million of.
const (
	maxPointer = 1 << 20
	maxRefs    = 256 << 20
)

// essential are the names in a git directory that git itself finds through a link, so that one
// there leads astray.
var essential = []string{"HEAD", "config", "config.worktree", "commondir", "gitdir", "index", "packed-refs", "shallow", "objects", "refs", "info", "reftable"}

// checkPlain fails when something that git needs in a git directory is a link, a pipe or a device.
// HEAD may be a link to a ref, as git made it once. It looks at the names only, not at what is
// below objects and refs: the walks there follow no link.
func checkPlain(gitDir string) error {
	for _, name := range essential {
		path := filepath.Join(gitDir, name)
		fi, err := os.Lstat(path)
		switch {
		case gone(err):
			continue
		case err != nil:
			return unreadable(path, err)
		case fi.IsDir(), fi.Mode().IsRegular(), name == "HEAD" && linkedRef(path) != "":
			continue
		}
		return agentbox.Errorf(agentbox.Invalid, "%s is neither a file nor a directory, and links in a git directory are not followed", path).
			WithHint("clone the repository, or use: git worktree add")
	}
	return errors.Join(checkIncludes(filepath.Join(gitDir, "config"), map[string]bool{}), checkIncludes(filepath.Join(gitDir, "config.worktree"), map[string]bool{}))
}

// checkIncludes fails when a configuration includes a pipe or a device, for which git would wait.
// Conditions of includes are not looked at. seen has the files that were.
func checkIncludes(file string, seen map[string]bool) error {
	seen[file] = true
	settings, err := readConfig(file)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if s.Key != "include.path" && !(strings.HasPrefix(s.Key, "includeif.") && strings.HasSuffix(s.Key, ".path")) {
			continue
		}
		path := expand(s.Value, filepath.Dir(file))
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // git passes over what is not there, and says what it cannot read
		}
		fi, err := os.Lstat(real)
		if err != nil || fi.IsDir() || real == os.DevNull || seen[real] {
			continue
		}
		if !fi.Mode().IsRegular() {
			return agentbox.Errorf(agentbox.Invalid, "%s includes %s, which is not a file", file, path).WithHint("git config --file %s --unset-all %s", file, s.Key)
		}
		if err := checkIncludes(real, seen); err != nil {
			return err
		}
	}
	return nil
}

// linkedRef is the ref that a symbolic link stands for, "" when it is no such link.
func linkedRef(path string) string {
	to, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(to, "refs/") || !fs.ValidPath(to) {
		return ""
	}
	return to
}

// preflight looks for the .git that git would find from dir, before git does: it would wait for a
// pipe and follow a link. dir is absolute, without links. Nothing found is no error; git says it
// better.
func preflight(dir string) error {
	for {
		path := filepath.Join(dir, ".git")
		fi, err := os.Lstat(path)
		switch {
		// A .git without what makes it one is found by git to be none, and it looks further up; we
		// do not, and git's answer is checked again by checkOwn.
		case err == nil && fi.IsDir():
			return checkPlain(path)
		case err == nil && !fi.Mode().IsRegular():
			return agentbox.Errorf(agentbox.Invalid, "%s is neither a directory nor a file, and is not followed", path).
				WithHint("put the repository there, or a file that says where it is: git worktree add")
		case err == nil:
			gitDir, err := follow(path, "gitdir: ", dir)
			if err != nil {
				return agentbox.Errorf(agentbox.Invalid, "cannot tell where the repository of %s is: %w", dir, err)
			}
			if common, err := follow(filepath.Join(gitDir, "commondir"), "", gitDir); err == nil {
				return errors.Join(checkPlain(gitDir), checkPlain(common))
			}
			return checkPlain(gitDir)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// checkOwn fails when the git directory is not the checkout's own: neither in it, nor one that
// names it. Three forms are a checkout's own: .git itself, or a place inside the checkout that a
// file .git names; a linked work tree, whose gitdir file leads back to .git; and a git directory
// elsewhere whose core.worktree is the root. Any other would let an archive with a file .git in it
// bring another repository of this user's into a box.
func (r Repo) checkOwn(ctx context.Context) error {
	entry := filepath.Join(r.Root, ".git")
	fi, err := os.Lstat(entry)
	if err != nil || fi.Mode()&fs.ModeSymlink != 0 {
		return stranger(r.Root, r.GitDir)
	}
	if err := checkPlain(r.GitDir); err != nil {
		return err
	}
	// A directory of the checkout that looks like a git directory may say that its work tree is
	// around it. Only .git decides.
	named := r.GitDir == entry
	if fi.Mode().IsRegular() && within(r.Root, r.GitDir) {
		to, err := follow(entry, "gitdir: ", r.Root)
		named = err == nil && same(to, r.GitDir)
	}
	// It is below the checkout, and neither .git nor named by it: somebody put it there to be
	// found.
	if !named && within(r.Root, r.GitDir) {
		return stranger(r.Root, r.GitDir)
	}
	// The files of a repository that is the checkout's own may still lead its common directory
	// elsewhere.
	if named {
		if r.CommonDir == r.GitDir || within(r.Root, r.CommonDir) {
			return nil
		}
		return stranger(r.Root, r.CommonDir)
	}
	if back, err := follow(filepath.Join(r.GitDir, "gitdir"), "", r.GitDir); err == nil && same(back, entry) {
		if filepath.Dir(filepath.Dir(r.GitDir)) == r.CommonDir && filepath.Base(filepath.Dir(r.GitDir)) == "worktrees" {
			return checkPlain(r.CommonDir)
		}
	}
	settings, err := readConfig(filepath.Join(r.GitDir, "config"))
	if err != nil {
		return err
	}
	// Submodules and separate git directories say so; of a linked work tree's common directory this
	// is never asked.
	for _, s := range settings {
		if s.Key == "core.worktree" && r.CommonDir == r.GitDir && same(absolute(s.Value, r.GitDir), r.Root) {
			return nil
		}
	}
	return stranger(r.Root, r.GitDir)
}

// stranger is the error for a git directory that does not name the checkout.
func stranger(root, gitDir string) error {
	return agentbox.Errorf(agentbox.Invalid, "%s leads to the git directory %s, which does not name it in turn", root, gitDir).
		WithHint("if it is this checkout's: git config --file %s core.worktree %s", filepath.Join(gitDir, "config"), root)
}

// within tells whether path is below dir, both of which are clean and absolute.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// absolute is path, clean, counted from base if it is relative.
func absolute(path, base string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.Clean(path)
}

// same tells whether two paths are one file; a link to it is another.
func same(a, b string) bool {
	fa, err := os.Lstat(a)
	if err != nil {
		return false
	}
	fb, err := os.Lstat(b)
	return err == nil && os.SameFile(fa, fb)
}

// borrowKey is where the user's own configuration says which directories checkouts may borrow
// objects from.
const borrowKey = "agentbox.borrow"

// mayBorrow tells whether the user allows checkouts to take objects from a directory. A repository
// cannot say so itself: only configuration outside of repositories counts.
func mayBorrow(ctx context.Context, store string) (bool, error) {
	out, _, err := answer(ctx, "/", "config", "--includes", "--null", "--get-all", borrowKey)
	if err != nil {
		return false, err
	}
	for dir := range strings.SplitSeq(out, "\x00") {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) && (real == store || within(real, store)) {
			return true, nil
		}
	}
	return false, nil
}

// borrowed is the error for a store that nobody allowed, with both ways out.
func borrowed(root, store string) error {
	return agentbox.Errorf(agentbox.Invalid, "%s borrows objects from %s, which is not part of it", root, store).
		WithHint("if that is what you want: git config --global --add %s %s; else make it stand alone: git repack -a -d && rm .git/objects/info/alternates",
			borrowKey, store)
}
