package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"

	"agentbox/agentbox/git"
)

// Describe returns the checkout that dir belongs to and the state of its HEAD. dir may be
// relative or a link. It refuses a layout in which git would follow a link or block on a pipe
// before it runs git. Errors have code Invalid, with a hint where there is a remedy. Describe
// costs up to two git processes.
func Describe(ctx context.Context, dir string) (Repo, error) {
	if dir == "" { // the caller's working directory was removed
		return Repo{}, agentbox.Errorf(agentbox.Invalid, "the current directory is gone").WithHint("cd somewhere else, or name a box")
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return Repo{}, agentbox.Errorf(agentbox.Invalid, "cannot read directory %s: %w", dir, err)
	}
	if err := preflight(abs); err != nil {
		return Repo{}, err
	}
	repo, err := locate(ctx, abs)
	if err != nil {
		return Repo{}, err
	}
	if err := repo.checkOwn(ctx); err != nil {
		return Repo{}, err
	}
	return repo, repo.readHead(ctx)
}

// locate asks git for the paths of a checkout, because only git knows every form of work tree.
func locate(ctx context.Context, dir string) (Repo, error) {
	out, err := ask(ctx, dir, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir", "--show-toplevel")
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil && len(lines) >= 2 {
		return Repo{}, agentbox.Errorf(agentbox.Invalid, "%s is in a repository without a work tree (%s)", dir, lines[0]).
			WithHint("clone it, or add a work tree: git worktree add ../checkout")
	}
	if err != nil {
		return Repo{}, explain(err, dir)
	}
	if len(lines) != 3 {
		return Repo{}, agentbox.Errorf(agentbox.Invalid, "the path of the repository at %s contains a newline", dir)
	}
	repo := Repo{Root: lines[2]}
	if repo.GitDir, err = filepath.EvalSymlinks(lines[0]); err == nil {
		repo.CommonDir, err = filepath.EvalSymlinks(lines[1])
	}
	if err != nil {
		return Repo{}, unreadable(lines[0], err)
	}
	sub, err := filepath.Rel(repo.Root, dir)
	if err != nil || sub == ".." || strings.HasPrefix(sub, "../") {
		return Repo{}, agentbox.Errorf(agentbox.Invalid, "%s is not inside its repository's work tree %s", dir, repo.Root)
	}
	if sub != "." {
		repo.Subdir = filepath.ToSlash(sub)
	}
	return repo, nil
}

// readHead fills in Branch, Detached and Commit from the files, and falls back to git where they
// have an unusual form.
func (r *Repo) readHead(ctx context.Context) error {
	err := r.plainHead()
	if errors.Is(err, errNotPlain) {
		return r.askHead(ctx)
	}
	return err
}

// errNotPlain means that only git can read a HEAD or ref.
var errNotPlain = errors.New("not of the plain kind")

// plainHead reads HEAD and the ref it names from the files, which needs no process: the start of
// a box waits for it.
func (r *Repo) plainHead() error {
	path := filepath.Join(r.GitDir, "HEAD")
	head, err := git.ReadPlain(path, maxPointer)
	// Old versions of git made HEAD a symbolic link.
	if ref := linkedRef(path); ref != "" {
		head, err = []byte("ref: "+ref), nil
	}
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot read HEAD of the repository at %s: %w", r.Root, err)
	}
	text := strings.TrimSpace(string(head))
	if isHex(text) {
		r.setDetached(text)
		return nil
	}
	ref, ok := strings.CutPrefix(text, "ref: ")
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	if !ok || !isBranch || branch == ".invalid" || !ValidName(ref) { // .invalid means that refs are in a reftable
		return errNotPlain
	}
	r.Branch = branch
	// A loose ref takes precedence over a packed one.
	loose, err := git.ReadPlain(filepath.Join(r.CommonDir, filepath.FromSlash(ref)), maxPointer)
	if err == nil {
		if r.Commit = strings.TrimSpace(string(loose)); !isHex(r.Commit) {
			return errNotPlain
		}
		return nil
	}
	if !gone(err) {
		return errNotPlain
	}
	r.Commit, err = packedRef(filepath.Join(r.CommonDir, "packed-refs"), ref)
	if err != nil {
		return agentbox.Errorf(agentbox.Invalid, "cannot read the refs of the repository at %s: %w", r.Root, err)
	}
	return nil
}

// jjBranch is what Repo.Branch is in a checkout of Jujutsu: its word for the working copy, and no
// name of a branch in git.
const jjBranch = "@"

// setDetached records a detached HEAD. commit is full hex; its first 12 digits stand in for the
// branch name. Jujutsu's HEAD is always detached and moves with every `jj new`, so there the
// working copy is what a branch is elsewhere.
func (r *Repo) setDetached(commit string) {
	r.Commit, r.Detached, r.Branch = commit, true, commit[:12]
	if fi, err := os.Lstat(filepath.Join(r.Root, ".jj")); err == nil && fi.IsDir() {
		r.Branch = jjBranch
	}
}

// askHead handles reftables, symbolic refs, and a HEAD outside of refs/heads. On an unborn
// branch, a missing commit is not an error.
func (r *Repo) askHead(ctx context.Context) error {
	r.Branch, r.Commit = "", ""
	ref, onBranch, err := answer(ctx, r.Root, "symbolic-ref", "--quiet", "--short", "HEAD")
	if err != nil {
		return err
	}
	r.Branch = strings.TrimSpace(ref)
	commit, err := ask(ctx, r.Root, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if _, none := errors.AsType[*git.Error](err); err != nil && !(none && onBranch) {
		return explain(err, r.Root)
	}
	r.Commit = strings.TrimSpace(string(commit))
	if !onBranch {
		r.setDetached(r.Commit)
	}
	return nil
}

// packedRef looks up a ref in the packed-refs file and returns "" if it is not there. Each line
// of the file is "HEX REF"; their order does not matter here.
func packedRef(path, ref string) (string, error) {
	data, err := git.ReadPlain(path, maxRefs)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	at := bytes.Index(data, []byte(" "+ref+"\n"))
	if at < 0 {
		return "", nil
	}
	if hex := string(data[bytes.LastIndexByte(data[:at], '\n')+1 : at]); isHex(hex) {
		return hex, nil
	}
	return "", errors.New("packed-refs is damaged")
}

// isHex reports whether s has the form of a full object name, SHA-1 or SHA-256.
func isHex(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// IsDeleted reports whether the checkout at root no longer exists; it is false for "". Any failure
// other than a missing path counts as not gone.
func IsDeleted(root string) bool {
	if root == "" {
		return false
	}
	_, err := os.Stat(root)
	return os.IsNotExist(err)
}
