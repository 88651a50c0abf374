package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"agentbox/agentbox"
	"agentbox/agentbox/git"

	"golang.org/x/sync/errgroup"
)

// Options say how a repository is staged.
type Options struct {
	// Link lets immutable git objects be hard links to the repository's own. Only for a tree that
	// will be read and removed, never written: through a link, a change of the copy is a change of
	// the original.
	Link bool
	// Limit is how many bytes the copy may have; 0 means any number. Beyond it Stage fails with
	// NoSpace.
	Limit int64
}

// Stats is what Stage did.
type Stats struct {
	Files int      // of the work tree, submodules and nested repositories included
	Notes []string // what was left out and why, one line each
}

// Stage makes dst, which does not exist or is an empty directory, a copy of the repository that
// stands alone: the work tree (tracked and untracked files, ignored ones not) and a .git directory
// with which git says the same as in the original. On failure dst is as it was. The original is
// only read. Hooks and credentials stay behind. A path that cannot be taken as it is (a device, a
// name that git could not have made) is left out, with a note, and so are repositories inside that
// lead elsewhere. It costs a few git processes, and may be ended by ctx at any time.
func Stage(ctx context.Context, repo Repo, dst string, opts Options) (Stats, error) {
	existed, err := prepare(dst)
	if err != nil {
		return Stats{}, err
	}
	// Git is told of the copy too, from wherever it runs.
	if dst, err = filepath.EvalSymlinks(dst); err == nil {
		dst, err = filepath.Abs(dst)
	}
	if err != nil {
		return Stats{}, errors.Join(unwritable(dst, err), discard(dst, existed))
	}
	// Limit and link hold for all repositories that are nested in it together.
	s := &stager{opts: opts, top: repo, dst: dst, seen: map[string]bool{}}
	// Whatever the form of the original, a linked work tree say, the copy has its git directory
	// inside.
	err = s.repo(ctx, repo, target{root: dst, git: filepath.Join(dst, ".git")})
	if err == nil {
		err = s.finishDirs()
	}
	if err != nil {
		return Stats{}, errors.Join(err, discard(dst, existed))
	}
	return s.stats, nil
}

// TooLarge is the error of a workspace that has more bytes than its box's disk. limit is in bytes.
func TooLarge(limit int64) error {
	return agentbox.Errorf(agentbox.NoSpace, "the workspace does not fit into the box's disk of %d bytes", limit).WithHint("set disk: to more")
}

// prepare makes dst an empty directory and tells whether it was one before.
func prepare(dst string) (existed bool, err error) {
	err = os.Mkdir(dst, 0o755)
	if errors.Is(err, fs.ErrExist) {
		existed = true
		var entries []fs.DirEntry
		if entries, err = os.ReadDir(dst); err == nil && len(entries) > 0 {
			err = errors.New("it is not empty")
		}
	}
	if err != nil {
		return false, agentbox.Errorf(agentbox.Internal, "cannot stage the workspace in %s: %w", dst, err)
	}
	return existed, nil
}

// discard undoes prepare.
func discard(dst string, keep bool) error {
	if !keep {
		return os.RemoveAll(dst)
	}
	entries, err := os.ReadDir(dst)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dst, e.Name())))
	}
	return err
}

// target is where one repository goes: its work tree and its git directory.
type target struct {
	root     string // "" for a git directory alone
	git      string
	worktree string // value of core.worktree, for a git directory that is not root/.git
}

// stager is one run of Stage, over the repository and what is nested in it. Everything but size and
// stats is written by one goroutine at a time: s.repo and what it calls go through the repositories
// one after the other, and only the copying of files has many.
type stager struct {
	opts  Options
	top   Repo // the checkout, outside of which nothing is read
	dst   string
	seen  map[string]bool // git directories copied so far
	carry []git.Setting   // of the user's own configuration
	dirs  []dirTimes
	size  atomic.Int64 // of everything copied or about to be

	// mu guards stats.Notes, which goroutines that copy add to.
	mu    sync.Mutex
	stats Stats
}

// note adds a line for people about something that was left out.
func (s *stager) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Notes = append(s.stats.Notes, fmt.Sprintf(format, args...))
}

// repo copies one repository and everything nested in it. The git directory's state is copied
// before its objects, and git always writes objects first, so whatever the copied refs and index
// name is there, even while the user works on. A file of the work tree may change meanwhile: that
// is copied as it is when its turn comes.
func (s *stager) repo(ctx context.Context, repo Repo, to target) error {
	s.seen[repo.GitDir] = true
	local, err := s.gitDir(ctx, repo, to)
	if err != nil {
		return err
	}
	paths, err := s.objectsAndList(ctx, repo, to, local)
	if err != nil {
		return err
	}
	nested, err := s.tree(ctx, repo.Root, to.root, paths)
	if err != nil {
		return err
	}
	for _, path := range nested {
		if err := s.nested(ctx, repo, to, path); err != nil {
			return err
		}
	}
	return s.modulesBelow(ctx, repo.GitDir, to.git, "modules", 0)
}

// objectsAndList copies the objects and lists the work tree, side by side unless the list needs
// them.
func (s *stager) objectsAndList(ctx context.Context, repo Repo, to target, local []git.Setting) (paths []string, err error) {
	l := looks{root: repo.Root, gitDir: to.git, commonDir: to.git, local: local, user: s.carry, area: s.area()}
	// git reads the trees of directories that its index has no files of.
	if last(local, "core.sparsecheckout") != "" {
		if err := s.objects(ctx, repo, to.git); err != nil {
			return nil, err
		}
		l.objects = filepath.Join(to.git, "objects")
		return s.list(ctx, l)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { paths, err = s.list(gctx, l); return })
	g.Go(func() error { return s.objects(gctx, repo, to.git) })
	return paths, g.Wait()
}

// list names what belongs to the work tree, each path once. What git reads for it is the copy of
// the index, through a view that is removed again.
func (s *stager) list(ctx context.Context, l looks) (paths []string, err error) {
	v, err := l.newView(filepath.Join(l.gitDir, "agentbox-view"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	all, complaints, err := listFiles(ctx, v, l.root)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(complaints) { // directories git may not read are not part of what it shows
		s.note("git: %s", strings.ToValidUTF8(strings.TrimSpace(line), "\ufffd"))
	}
	own := ""
	if rel, err := filepath.Rel(l.root, s.dst); err == nil && filepath.IsLocal(rel) {
		own = filepath.ToSlash(rel) + "/" // the copy itself, when it is made inside the work tree
	}
	seen := map[string]bool{}
	for _, path := range all {
		name := strings.TrimSuffix(path, "/")
		switch {
		case seen[path] || own != "" && strings.HasPrefix(name+"/", own):
		case !validName(name):
			s.note("%q is left out: the index of %s has it, and no file can be called that", path, l.root)
		default:
			paths = append(paths, path)
		}
		seen[path] = true
	}
	return paths, nil
}
