package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/workspace"
)

// Capture makes a source of a checkout as it is now, or finds it. project is the name of its
// project. The checkout is only read. The source stays until release is called. A file that somebody
// writes meanwhile is captured in a state that it had, if it had one.
func (s *Store) Capture(ctx context.Context, repo workspace.Repo, project string) (c Captured, release func(), err error) {
	defer s.capturing.Lock(repo.Root)()
	before := s.readPrevious(repo.Root)
	if before != nil {
		defer s.hold(before.digest)()
	}
	if before != nil && before.Project != project {
		before = nil
	}
	dir, err := os.MkdirTemp(s.Dir, newPrefix)
	if err != nil {
		return c, nil, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	run := &capture{tree: filepath.Join(dir, treeDir), before: before, begun: time.Now(), seen: map[string]durable.Identity{}, manifest: manifest{Project: project}}
	stats, err := workspace.Stage(ctx, repo, run.tree, workspace.Options{Link: true, Bulk: run.bulk})
	if errors.Is(err, errUnchanged) {
		return s.Open(ctx, before.digest)
	}
	if err == nil {
		err = run.complete(ctx)
	}
	if err != nil {
		return c, nil, err
	}
	text := run.encode()
	d, err := digest(text)
	if err != nil {
		return c, nil, err
	}
	defer s.hold(d)()
	if err := s.adopt(dir, &run.manifest, text, d, stats.Notes); err != nil {
		return c, nil, err
	}
	if err := s.writeStamps(repo.Root, d, &run.manifest, run.seen, run.begun); err != nil {
		return c, nil, err
	}
	return s.Open(ctx, d)
}

// errUnchanged ends the copy of a checkout that is as it was.
var errUnchanged = errors.New("nothing has changed")

// capture is one run of Capture.
type capture struct {
	manifest
	tree   string
	before *previous
	begun  time.Time
	seen   map[string]durable.Identity // of the bulk's files in the checkout
	fresh  []string                    // files of the bulk that were not there before, or not so
}

// bulk lists everything, before the bulk is copied, and compares it with the last capture
// (workspace.Options.Bulk).
func (c *capture) bulk(b workspace.Bulk) error {
	known := map[string]bool{}
	if err := c.addState(known); err != nil {
		return err
	}
	c.addDirs(b, known)
	for i, f := range b.Files {
		id := durable.IdentityOf(f.Info)
		if f.Object {
			id.Changed = id.MTime
		}
		c.seen[f.Path] = id
		e, same := c.before.unchanged(f.Path, id)
		if !same {
			c.fresh = append(c.fresh, f.Path)
			continue
		}
		c.Entries = append(c.Entries, e)
		if e.Kind == kindFile { // a link of a link is not the same everywhere
			b.Files[i].From = filepath.Join(c.before.tree, filepath.FromSlash(f.Path))
		}
	}
	if c.before == nil || len(c.fresh) > 0 || len(c.Entries) != len(c.before.Entries) {
		return nil
	}
	for _, e := range c.Entries {
		if i, ok := c.before.at[e.Path]; !ok || c.before.Entries[i] != e {
			return nil
		}
	}
	return errUnchanged
}

// addState adds what is in the tree already: what git knows of the checkout, but no objects.
func (c *capture) addState(known map[string]bool) error {
	return filepath.WalkDir(c.tree, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.tree, file)
		if name = filepath.ToSlash(name); err != nil || !isOfGit(name) {
			return err // its mode comes with the bulk
		}
		e, err := describe(file, name)
		known[name] = true
		c.Entries = append(c.Entries, e)
		return err
	})
}

// hasTime reports whether the time of a path matters. That of an index says which files git need not
// read; all else in a git directory is written by the capture itself, or touched by git as it reads.
func hasTime(name string) bool {
	isIndex := path.Base(name) == "index" && !strings.Contains(name, "/refs/") && !strings.Contains(name, "/logs/")
	return isIndex || !isOfGit(name)
}

// addDirs adds the directories that are not in the tree yet.
func (c *capture) addDirs(b workspace.Bulk, known map[string]bool) {
	add := func(name string, mode fs.FileMode) {
		if !known[name] {
			known[name] = true
			c.Entries = append(c.Entries, entry{Path: name, Kind: kindDir, Mode: mode})
		}
	}
	for _, d := range b.Dirs {
		add(d.Path, d.Mode)
	}
	for _, f := range b.Files {
		for dir := path.Dir(f.Path); !known[dir]; dir = path.Dir(dir) {
			add(dir, 0o755)
		}
	}
}

// complete describes what was copied anew. A file that was deleted meanwhile is in no tree.
func (c *capture) complete(ctx context.Context) error {
	found := make([]entry, len(c.fresh))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for i, name := range c.fresh {
		g.Go(func() (err error) {
			found[i], err = describe(filepath.Join(c.tree, filepath.FromSlash(name)), name)
			if errors.Is(err, fs.ErrNotExist) {
				err = gctx.Err()
			}
			return err
		})
	}
	err := g.Wait()
	for _, e := range found {
		if e.Kind != 0 {
			c.Entries = append(c.Entries, e)
		}
	}
	c.sort()
	return err
}

func describe(file, name string) (e entry, err error) {
	fi, err := os.Lstat(file)
	if err != nil {
		return e, err
	}
	e.Path = name
	if hasTime(name) && !fi.IsDir() {
		e.Time = fi.ModTime().UnixNano()
	}
	switch {
	case fi.IsDir():
		e.Kind, e.Mode = kindDir, fi.Mode().Perm()
	case fi.Mode()&fs.ModeSymlink != 0:
		e.Kind = kindLink
		e.Target, err = os.Readlink(file)
	default:
		e.Kind, e.Mode, e.Size = kindFile, fi.Mode().Perm(), fi.Size()
		e.Digest, err = agentbox.DigestFile(file)
	}
	return e, err
}
