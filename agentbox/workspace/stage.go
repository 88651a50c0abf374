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

// Options configures Stage.
type Options struct {
	// Link allows immutable git objects to be hard links to the repository's own. Set it only
	// for a tree that is read and then removed: writing through a link changes the original.
	Link bool
	// Limit is the maximum size of the copy in bytes; 0 means unlimited. Stage fails with
	// NoSpace beyond it.
	Limit int64
	// Bulk, if it is set, is called once, when the copy has all but its bulk: the files and
	// directories of work trees, and git's objects. It may set File.From. Its error ends Stage.
	Bulk func(Bulk) error
}

// Stats is the result of Stage.
type Stats struct {
	Files int      // in the work tree, including submodules and nested repositories
	Notes []string // what was omitted and why, one line each
}

// Stage copies the repository into dst, which must not exist or be an empty directory. The copy
// is self-contained: the tracked and untracked files of the work tree, without ignored ones, and
// a .git directory with which git reports the same status as in the original. Hooks and
// credentials are not copied. Paths that cannot be copied faithfully (a device, a name that git
// could not have made) and nested repositories that lead out of the checkout are omitted and
// noted in Stats. The original is only read. On failure dst is restored to what it was. Stage
// starts a few git processes; ctx cancels it at any point.
func Stage(ctx context.Context, repo Repo, dst string, opts Options) (Stats, error) {
	existed, err := prepare(dst)
	if err != nil {
		return Stats{}, err
	}
	// Git receives this path too, and may run in another directory.
	if dst, err = filepath.EvalSymlinks(dst); err == nil {
		dst, err = filepath.Abs(dst)
	}
	if err != nil {
		return Stats{}, errors.Join(unwritable(dst, err), discard(dst, existed))
	}
	// One stager handles all nested repositories, so that the limit covers them together.
	s := &stager{opts: opts, top: repo, dst: dst, seen: map[string]bool{}}
	if repo.Partial() {
		s.note("this checkout is a partial clone: its history is incomplete, and git in the box asks its remote for the rest, for git log -p, blame or an older commit")
	}
	// The copy always has its git directory inside, even if the original is a linked work tree.
	err = s.repo(ctx, repo, target{root: dst, git: filepath.Join(dst, ".git")})
	if err == nil && opts.Bulk != nil {
		err = s.copyBulk(ctx)
	}
	if err == nil {
		err = s.finishDirs()
	}
	if err != nil {
		return Stats{}, errors.Join(err, discard(dst, existed))
	}
	return s.stats, nil
}

// TooLarge returns the NoSpace error for a workspace that does not fit on its box's disk. limit
// is in bytes.
func TooLarge(limit int64) error {
	return agentbox.Errorf(agentbox.NoSpace, "the workspace does not fit into the box's disk of %d bytes", limit).WithHint("set disk: to more")
}

// prepare makes dst an empty directory and reports whether it existed before.
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

// Prepare makes dst an empty directory, as Stage does. undo makes it what it was, and returns its
// argument with its own error.
func Prepare(dst string) (undo func(error) error, err error) {
	existed, err := prepare(dst)
	return func(why error) error { return errors.Join(why, discard(dst, existed)) }, err
}

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

// target is the destination of one repository: its work tree and its git directory.
type target struct {
	root     string // "" for a git directory alone
	git      string
	worktree string // value of core.worktree, for a git directory that is not root/.git
}

// stager is one run of Stage over the repository and everything nested in it. repo and what it
// calls visit repositories one after the other, so only size and stats are shared between
// goroutines: files are copied concurrently.
type stager struct {
	opts  Options
	top   Repo // the outermost checkout; nothing outside of it is read
	dst   string
	seen  map[string]bool // git directories copied so far
	carry []git.Setting   // from the user's own configuration
	dirs  []dirTimes
	bulk  []job
	size  atomic.Int64 // bytes copied so far or about to be

	// mu guards stats.Notes.
	mu    sync.Mutex
	stats Stats
}

// note records for the user that something was omitted.
func (s *stager) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Notes = append(s.stats.Notes, fmt.Sprintf(format, args...))
}

// repo copies one repository and everything nested in it. It copies the git directory's state
// before the objects. Git writes objects first, so everything that the copied refs and index
// name is present, even while the user keeps working. A file of the work tree that changes
// meanwhile is copied as it is when its turn comes.
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
	s.noteAttributes(repo, local, paths)
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

// objectsAndList copies the objects beside listing the work tree, unless that needs them.
func (s *stager) objectsAndList(ctx context.Context, repo Repo, to target, local []git.Setting) (paths []string, err error) {
	l := viewSource{root: repo.Root, gitDir: to.git, commonDir: to.git, local: local, user: s.carry, area: s.area()}
	// With a sparse index, git reads the trees of directories whose files the index omits.
	if settingValue(local, "core.sparsecheckout") != "" {
		if err := s.objects(ctx, repo, to.git); err != nil {
			return nil, err
		}
		if l.objects = filepath.Join(to.git, "objects"); s.opts.Bulk != nil {
			l.objects = filepath.Join(repo.CommonDir, "objects") // those of the copy come last
		}
		return s.list(ctx, l)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { paths, err = s.list(gctx, l); return })
	g.Go(func() error { return s.objects(gctx, repo, to.git) })
	return paths, g.Wait()
}

// list returns the paths of the work tree without duplicates. Git reads the copied index,
// through a temporary view.
func (s *stager) list(ctx context.Context, l viewSource) (paths []string, err error) {
	dir := filepath.Join(l.gitDir, "agentbox-view")
	v, err := l.newView(dir)
	if err != nil {
		return nil, err
	}
	if s.opts.Bulk != nil && l.objects != "" { // the original's: git reads them, and writes trees elsewhere
		objects := filepath.Join(dir, "objects")
		if err := writeText(filepath.Join(objects, "info", "alternates"), l.objects+"\n"); err != nil {
			return nil, err
		}
		v = v.With("GIT_OBJECT_DIRECTORY=" + objects)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	all, complaints, err := listFiles(ctx, v, l.root)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(complaints) { // git omits directories it cannot read
		s.note("git: %s", strings.ToValidUTF8(strings.TrimSpace(line), "\ufffd"))
	}
	own := ""
	if rel, err := filepath.Rel(l.root, s.dst); err == nil && filepath.IsLocal(rel) {
		own = filepath.ToSlash(rel) + "/" // the copy itself, if it is made inside the work tree
	}
	seen := map[string]bool{}
	for _, path := range all {
		name := strings.TrimSuffix(path, "/")
		switch {
		case seen[path] || own != "" && strings.HasPrefix(name+"/", own):
		case !ValidName(name):
			s.note("%q is left out: the index of %s has it, and no file can be called that", path, l.root)
		default:
			paths = append(paths, path)
		}
		seen[path] = true
	}
	return paths, nil
}
