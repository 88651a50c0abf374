package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
)

// A checkout's .git is untrusted: it may have come from an archive or out of a box. It may
// describe only the checkout itself. If it points to another directory, that directory must
// point back to the checkout, which only somebody with write access there can arrange.

// maxPointer bounds files that hold one path or one ref. maxRefs bounds packed-refs, since some
// repositories have a million refs. Both are in bytes.
const (
	maxPointer = 1 << 20
	maxRefs    = 256 << 20
)

// essential lists the names in a git directory that git opens through links, so that a link
// there could lead out of it.
var essential = []string{"HEAD", "config", "config.worktree", "commondir", "gitdir", "index", "packed-refs", "shallow", "objects", "refs", "info", "reftable"}

// checkPlain fails when an essential entry of a git directory is a link, a pipe or a device, or is
// to hold a path and so large that git would run out of memory. HEAD may be a link to a ref, the
// form that old versions of git wrote. It checks only these names, not what is below objects and
// refs: the walks there follow no links.
func checkPlain(gitDir string) error {
	for _, name := range essential {
		path := filepath.Join(gitDir, name)
		fi, err := os.Lstat(path)
		switch {
		case gone(err):
			continue
		case err != nil:
			return unreadable(path, err)
		case (name == "commondir" || name == "gitdir") && fi.Size() > maxPointer:
			return unreadable(path, fmt.Errorf("it has more than %d bytes", maxPointer))
		case fi.IsDir(), fi.Mode().IsRegular(), name == "HEAD" && linkedRef(path) != "":
			continue
		}
		return agentbox.Errorf(agentbox.Invalid, "%s is neither a file nor a directory, and links in a git directory are not followed", path).
			WithHint("clone the repository, or use: git worktree add")
	}
	return errors.Join(checkIncludes(filepath.Join(gitDir, "config"), map[string]bool{}), checkIncludes(filepath.Join(gitDir, "config.worktree"), map[string]bool{}))
}

// checkIncludes fails when a configuration includes a pipe or a device, on which git would
// block. It ignores the conditions of includes. seen holds the files already checked.
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
			continue // git ignores missing includes and reports unreadable ones
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

// linkedRef returns the ref that a symbolic link stands for, or "" if path is not such a link.
func linkedRef(path string) string {
	to, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(to, "refs/") || !fs.ValidPath(to) {
		return ""
	}
	return to
}

// preflight checks the .git that git would find from dir before git opens it, because git would
// block on a pipe and follow a link. dir is absolute and free of links. Finding no .git is not
// an error here: git reports that better.
func preflight(dir string) error {
	for {
		path := filepath.Join(dir, ".git")
		fi, err := os.Lstat(path)
		switch {
		// Git skips an incomplete .git and searches further up. This loop does not, but checkOwn
		// checks git's answer again.
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

// checkOwn fails unless the git directory belongs to the checkout. Three layouts qualify: .git
// itself, or a place inside the checkout that a .git file names; a linked work tree whose gitdir
// file points back to .git; and a git directory elsewhere whose core.worktree is the root.
// Anything else would let an archive that contains a .git file bring another of the user's
// repositories into a box.
func (r Repo) checkOwn(ctx context.Context) error {
	entry := filepath.Join(r.Root, ".git")
	fi, err := os.Lstat(entry)
	if err != nil || fi.Mode()&fs.ModeSymlink != 0 {
		return errForeignGitDir(r.Root, r.GitDir)
	}
	if err := checkPlain(r.GitDir); err != nil {
		return err
	}
	// A directory in the checkout that looks like a git directory may claim the checkout as its
	// work tree. Only .git decides.
	named := r.GitDir == entry
	if fi.Mode().IsRegular() && within(r.Root, r.GitDir) {
		to, err := follow(entry, "gitdir: ", r.Root)
		named = err == nil && sameFile(to, r.GitDir)
	}
	// A git directory below the checkout that .git does not name was planted there.
	if !named && within(r.Root, r.GitDir) {
		return errForeignGitDir(r.Root, r.GitDir)
	}
	// The checkout's own git directory may still point its common directory elsewhere.
	if named {
		if r.CommonDir == r.GitDir || within(r.Root, r.CommonDir) {
			return nil
		}
		return errForeignGitDir(r.Root, r.CommonDir)
	}
	if back, err := follow(filepath.Join(r.GitDir, "gitdir"), "", r.GitDir); err == nil && sameFile(back, entry) {
		if filepath.Dir(filepath.Dir(r.GitDir)) == r.CommonDir && filepath.Base(filepath.Dir(r.GitDir)) == "worktrees" {
			return checkPlain(r.CommonDir)
		}
	}
	settings, err := readConfig(filepath.Join(r.GitDir, "config"))
	if err != nil {
		return err
	}
	// Submodules and separate git directories set core.worktree. For a linked work tree, the
	// common directory's setting does not count.
	for _, s := range settings {
		if s.Key == "core.worktree" && r.CommonDir == r.GitDir && sameFile(absolute(s.Value, r.GitDir), r.Root) {
			return nil
		}
	}
	return errForeignGitDir(r.Root, r.GitDir)
}

// errForeignGitDir returns the error for a git directory that does not point back to the checkout.
func errForeignGitDir(root, gitDir string) error {
	return agentbox.Errorf(agentbox.Invalid, "%s leads to the git directory %s, which does not name it in turn", root, gitDir).
		WithHint("if it is this checkout's: git config --file %s core.worktree %s", filepath.Join(gitDir, "config"), root)
}

// within reports whether path is strictly below dir. Both must be clean and absolute.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// absolute returns path cleaned and, if it is relative, joined to base.
func absolute(path, base string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.Clean(path)
}

// sameFile reports whether two paths name the same file. Links are not followed.
func sameFile(a, b string) bool {
	fa, err := os.Lstat(a)
	if err != nil {
		return false
	}
	fb, err := os.Lstat(b)
	return err == nil && os.SameFile(fa, fb)
}

// borrowKey is the key in the user's own git configuration that lists the directories from which
// checkouts may borrow objects.
const borrowKey = "agentbox.borrow"

// isStoreAllowed reports whether the user allows checkouts to borrow objects from store. Only
// configuration outside of repositories counts, so a repository cannot grant this to itself.
func isStoreAllowed(ctx context.Context, store string) (bool, error) {
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

// storeNotAllowedError is for a store that the user has not allowed, with both remedies.
func storeNotAllowedError(root, store string) error {
	return agentbox.Errorf(agentbox.Invalid, "%s borrows objects from %s, which is not part of it", root, store).
		WithHint("if that is what you want: git config --global --add %s %s; else make it stand alone: git repack -a -d && rm .git/objects/info/alternates",
			borrowKey, store)
}
