package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"

	"golang.org/x/sync/errgroup"
)

// A git directory is copied by an allowlist of what git itself keeps in it. Anything that other
// tools left there, such as hooks and keys, stays behind. Names are relative to the git
// directory; a linked work tree keeps some of them in its own.
var (
	// shared lists what all work trees of a repository have in common. Hooks are never copied;
	// modules, worktrees and objects are handled separately.
	shared = []string{"refs", "logs", "info", "rr-cache", "description"}
	// private lists what each work tree keeps for itself, besides its pseudo-refs and messages.
	private = []string{"HEAD", "index", "logs", "refs", "info/sparse-checkout", "rebase-merge", "rebase-apply", "sequencer"}
	// privateRefs are the directories below refs and logs/refs that belong to one work tree.
	privateRefs = []string{"refs/bisect", "refs/worktree", "refs/rewritten"}

	// refFileNames are the names for refs and reflogs. In a repository with reftables they say only
	// that it is one.
	refFileNames = []string{"HEAD", "refs", "logs", "packed-refs"}

	// pseudoRef matches names such as MERGE_HEAD, ORIG_HEAD, COMMIT_EDITMSG and AUTO_MERGE.
	pseudoRef   = agentbox.Pattern(`^[A-Z][A-Z_]*$`)
	sharedIndex = agentbox.Pattern(`^sharedindex\.[0-9a-f]+$`)
)

// gitDir copies the git directory of a repository except its objects, which follow later (see
// repo), and returns the configuration of the original.
func (s *stager) gitDir(ctx context.Context, repo Repo, to target) (local []git.Setting, err error) {
	if err := os.MkdirAll(to.git, 0o755); err != nil {
		return nil, unwritable(to.git, err)
	}
	if to.root != "" && to.git != filepath.Join(to.root, ".git") {
		if err := pointTo(to); err != nil {
			return nil, err
		}
	}
	local, own, err := readConfigs(repo)
	if err == nil {
		err = checkFormat(repo, local)
	}
	if err != nil {
		return nil, err
	}
	s.noteHooks(repo, local)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.config(gctx, repo, to, local, own) })
	g.Go(func() error { return s.state(gctx, repo, to.git, local) })
	return slices.Concat(local, own), g.Wait()
}

// noteHooks notes which hooks are omitted. Hooks are programs of the host; a box runs only what
// is in the repository.
func (s *stager) noteHooks(repo Repo, local []git.Setting) {
	if dir := settingValue(local, "core.hookspath"); dir != "" {
		s.note("git hooks stay on the host: those in %s (core.hooksPath)", dir)
		return
	}
	entries, err := git.ReadDir(filepath.Join(repo.CommonDir, "hooks"))
	if err != nil {
		return // there are no hooks to report
	}
	var names []string
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".") { // git runs no others; samples end in .sample
			names = append(names, e.Name())
		}
	}
	if len(names) > 0 {
		s.note("git hooks stay on the host: %s", strings.Join(names, ", "))
	}
}

// pointTo writes the .git file of a work tree whose git directory is elsewhere, relative.
func pointTo(to target) error {
	rel, err := filepath.Rel(to.root, to.git)
	if err != nil {
		return unwritable(to.root, err)
	}
	return writeText(filepath.Join(to.root, ".git"), "gitdir: "+rel+"\n")
}

// state copies everything except objects and configuration. It copies loose refs before
// packed-refs: git packs a ref before it removes the loose one, so none is missed in between.
// Lock files are skipped, because nothing would ever remove them from the copy.
func (s *stager) state(ctx context.Context, repo Repo, dst string, local []git.Setting) error {
	packed := func(w *walker, repo Repo) error { return w.addAll(repo.CommonDir, []string{"packed-refs", "shallow"}) }
	tables := hasReftables(local)
	for _, collect := range []func(*walker, Repo) error{(*walker).addState, packed} {
		w := &walker{dst: dst, name: ".git/", refless: tables}
		if err := collect(w, repo); err != nil {
			return err
		}
		if _, err := s.copyAll(ctx, w.jobs); err != nil {
			return err
		}
	}
	if tables {
		if err := s.refFiles(repo, dst); err != nil {
			return err
		}
	}
	for _, dir := range []string{"refs", "objects/info", "objects/pack"} { // without refs git does not recognise a repository
		if err := os.MkdirAll(filepath.Join(dst, dir), 0o755); err != nil {
			return unwritable(dst, err)
		}
	}
	return completeIndex(filepath.Join(dst, "index"), local)
}

// addState collects what one work tree sees: its private files, and those of the common
// directory that do not belong to another work tree. In the main work tree both are in the same
// directory and are collected once.
func (w *walker) addState(repo Repo) error {
	linked := repo.GitDir != repo.CommonDir
	w.skip = func(rel string, _ bool) bool { return linked && isPrivate(rel) }
	if err := w.addAll(repo.CommonDir, shared); err != nil {
		return err
	}
	w.skip = func(rel string, _ bool) bool { return !linked && slices.Contains(shared, strings.Split(rel, "/")[0]) }
	if err := w.addAll(repo.GitDir, private); err != nil {
		return err
	}
	return w.addMatching(repo.GitDir)
}

// isPrivate reports whether a path in the common directory belongs to the main work tree alone.
func isPrivate(rel string) bool {
	if rel == "logs/HEAD" || rel == "info/sparse-checkout" {
		return true
	}
	for _, p := range privateRefs {
		if ref := strings.TrimPrefix(rel, "logs/"); ref == p || strings.HasPrefix(ref, p+"/") {
			return true
		}
	}
	return false
}

// walker turns the files below a git directory into jobs and creates their directories.
type walker struct {
	dst  string
	name string // dst's name in notes
	link bool   // files may become hard links
	bare bool   // directories are made later, for the bulk
	// refless leaves out the files that have refs, for a repository with reftables.
	refless bool
	jobs    []job
	skip    func(rel string, isDir bool) bool
}

// maxNesting bounds the depth of directories below a git directory. No real ref is that deep;
// the bound stops a directory tree built to be endless.
const maxNesting = 64

// addAll collects those of the named files and trees that exist in dir.
func (w *walker) addAll(dir string, names []string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		fi, err := os.Lstat(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return unreadable(path, err)
		}
		if err := w.directory(filepath.Dir(name)); err != nil {
			return err
		}
		if err := w.add(dir, name, fi.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

// add collects a file or a tree. It follows no symbolic links; see copyOne.
func (w *walker) add(dir, name string, isDir bool) error {
	if w.refless && slices.Contains(refFileNames, strings.Split(name, "/")[0]) {
		return nil
	}
	if w.skip != nil && w.skip(name, isDir) || strings.HasSuffix(name, ".lock") || strings.Count(name, "/") > maxNesting {
		return nil
	}
	path := filepath.Join(dir, name)
	if !isDir {
		// Git writes the URL that something came from into these two kinds of file.
		clean := name == "FETCH_HEAD" || strings.HasPrefix(name, "logs/")
		w.jobs = append(w.jobs, job{src: path, dst: filepath.Join(w.dst, name), name: w.name + name, link: w.link, clean: clean, private: true})
		return nil
	}
	entries, err := git.ReadDir(path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return unreadable(path, err)
	}
	if err := w.directory(name); err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.add(dir, name+"/"+e.Name(), e.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) directory(name string) error {
	if w.bare {
		return nil
	}
	return unwritable(w.dst, os.MkdirAll(filepath.Join(w.dst, name), 0o755))
}

// addMatching collects one work tree's pseudo-refs, messages and split index.
func (w *walker) addMatching(dir string) error {
	entries, err := git.ReadDir(dir)
	if err != nil {
		return unreadable(dir, err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "HEAD" && (pseudoRef().MatchString(name) || sharedIndex().MatchString(name)) {
			if err := w.add(dir, name, e.IsDir()); err != nil {
				return err
			}
		}
	}
	return nil
}
