package source

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/host/keyed"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

// Store is the directory of all sources of a home. One process has it, whose goroutines may call
// any method at any time.
type Store struct {
	Dir string

	racy      time.Duration
	capturing keyed.Locks // by checkout

	// mu guards held and ahead, and is held while a source is removed.
	mu    sync.Mutex
	held  map[agentbox.Digest]int // by how many callers
	ahead map[string]*ahead       // by project
}

// Names in a store; see the package comment.
const (
	manifestFile = "manifest"
	notesFile    = "notes"
	treeDir      = "tree"
	madeFile     = "made" // of a source that Make made: its project
	stampDir     = "stamps"
	newPrefix    = ".new-"
)

// Grace is how long a source stays after it was last used, although nobody needs it: its caller may
// be about to use it, and the next capture of the checkout is faster with it.
const Grace = time.Hour

// OpenStore opens the store in dir, makes it if necessary, and removes what was being made.
func OpenStore(dir string) (*Store, error) {
	err := os.MkdirAll(filepath.Join(dir, stampDir), 0o700)
	return &Store{Dir: dir, racy: racy, held: map[agentbox.Digest]int{}, ahead: map[string]*ahead{}}, errors.Join(err, durable.Sweep(dir, newPrefix+"*"))
}

func (s *Store) path(d agentbox.Digest) string { return filepath.Join(s.Dir, d.Hex()) }

func (s *Store) tree(d agentbox.Digest) string { return filepath.Join(s.path(d), treeDir) }

func (s *Store) readManifest(d agentbox.Digest) (*manifest, error) {
	f, err := os.Open(filepath.Join(s.path(d), manifestFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(bufio.NewReaderSize(f, 1<<20))
}

// Open opens a source. It stays until release is called, which may be called more than once. The
// error is NotFound for one that is not here.
func (s *Store) Open(ctx context.Context, d agentbox.Digest) (c Captured, release func(), err error) {
	release = s.hold(d)
	if _, err := os.Stat(s.path(d)); errors.Is(err, fs.ErrNotExist) {
		release()
		return c, func() {}, notHereError(d)
	}
	_ = os.Chtimes(s.path(d), time.Time{}, time.Now()) // one that looks older only goes earlier
	c = Captured{store: s, digest: d}
	if c.repo, err = workspace.Describe(ctx, s.tree(d)); err == nil {
		err = durable.ReadJSON(filepath.Join(s.path(d), notesFile), &c.notes)
	}
	if err != nil {
		release()
	}
	return c, release, err
}

func notHereError(d agentbox.Digest) error {
	return agentbox.Errorf(agentbox.NotFound, "source %s is not here any more", d.Short()).
		WithHint("capture it again: agentbox up or task submit, in the checkout")
}

// Project is the name of the project that a source belongs to.
func (c Captured) Project() string {
	p, _ := project.Identify(context.Background(), c.repo.Root) // it was read when it was opened, and does not change
	return p.Name
}

// Directory is the directory that was subdir in the checkout, or the nearest above it that the source
// has.
func (c Captured) Directory(subdir string) string {
	for dir := filepath.FromSlash(subdir); dir != "" && dir != "."; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(c.repo.Root, dir)); err == nil && info.IsDir() && filepath.IsLocal(dir) {
			return filepath.Join(c.repo.Root, dir)
		}
	}
	return c.repo.Root
}

// Notes say what was left out of it, and why.
func (c Captured) Notes() []string { return c.notes }

// hold keeps a source from being removed until release.
func (s *Store) hold(d agentbox.Digest) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[d]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[d]--; s.held[d] == 0 {
			delete(s.held, d)
		}
	})
}

// adopt makes the source in a directory of the store's, which it removes if there is one already.
func (s *Store) adopt(dir string, m *manifest, text []byte, d agentbox.Digest, notes []string) error {
	err := os.WriteFile(filepath.Join(dir, manifestFile), text, 0o600)
	if err == nil && len(notes) > 0 {
		var b []byte
		b, _ = json.Marshal(notes) // of texts
		err = os.WriteFile(filepath.Join(dir, notesFile), b, 0o600)
	}
	// The tree says whose it is, as its place does not. A box does not get this file.
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, treeDir, ".git", project.CapturedFile), []byte(m.Project), 0o600)
	}
	if err == nil {
		err = os.Rename(dir, s.path(d))
	}
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return agentbox.MarkNoSpace(err)
	}
	return os.RemoveAll(dir)
}

// Make makes a source of a checkout that write writes into a directory, which does not exist. It must
// be like one that workspace.Stage made. like is an earlier one of the project, or "": files that write
// makes hard links to those of like are not read again. The source stays until release is called.
func (s *Store) Make(ctx context.Context, project string, write func(dir, like string) error) (c Captured, release func(), err error) {
	before, let := s.lastMade(project)
	defer let()
	dir, err := os.MkdirTemp(s.Dir, newPrefix)
	if err != nil {
		return c, nil, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	made := &manifest{Project: project}
	tree := filepath.Join(dir, treeDir)
	if err = write(tree, before.tree); err == nil {
		made.Entries, err = before.describeAll(tree)
	}
	if err != nil {
		return c, nil, err
	}
	made.sort()
	text := made.encode()
	d, err := digest(text)
	if err != nil {
		return c, nil, err
	}
	defer s.hold(d)()
	if err := os.WriteFile(filepath.Join(dir, madeFile), []byte(project), 0o600); err != nil {
		return c, nil, agentbox.MarkNoSpace(err)
	}
	if err := s.adopt(dir, made, text, d, nil); err != nil {
		return c, nil, err
	}
	return s.Open(ctx, d)
}

// describeAll describes all that a tree has, without a look into what it shares with p.
func (p *previous) describeAll(tree string) ([]entry, error) {
	var names []string
	err := filepath.WalkDir(tree, func(file string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(tree, file)
		names = append(names, name)
		return err
	})
	all := make([]entry, len(names))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for i, name := range names {
		g.Go(func() (err error) {
			file, ok := filepath.Join(tree, name), false
			if all[i], ok = p.shared(file, filepath.ToSlash(name)); !ok {
				all[i], err = describe(file, filepath.ToSlash(name))
			}
			return err
		})
	}
	return all, errors.Join(err, g.Wait())
}

// lastMade is a project's last source, which stays until release; empty for none.
func (s *Store) lastMade(project string) (p previous, release func()) {
	all, _ := s.Unneeded(nil) // what cannot be listed is made anew
	slices.SortFunc(all, func(x, y Unneeded) int { return y.Used.Compare(x.Used) })
	for _, u := range all {
		if of, err := os.ReadFile(filepath.Join(u.Dir, madeFile)); err != nil || string(of) != project {
			continue
		}
		release = s.hold(u.Digest)
		m, err := s.readManifest(u.Digest)
		if err != nil {
			release()
			break
		}
		p = previous{digest: u.Digest, tree: s.tree(u.Digest), manifest: m, at: map[string]int{}}
		for i, e := range m.Entries {
			p.at[e.Path] = i
		}
		return p, release
	}
	return p, func() {}
}

// Unneeded is a source that nobody needs.
type Unneeded struct {
	Digest agentbox.Digest
	Dir    string
	Used   time.Time
}

// Unneeded lists the sources that nobody needs or has open.
func (s *Store) Unneeded(needed map[agentbox.Digest]bool) ([]Unneeded, error) {
	entries, err := os.ReadDir(s.Dir)
	var out []Unneeded
	for _, e := range entries {
		d, parseErr := agentbox.ParseDigest("sha256:" + e.Name())
		info, statErr := e.Info()
		if parseErr == nil && statErr == nil && !needed[d] {
			out = append(out, Unneeded{d, s.path(d), info.ModTime()})
		}
	}
	return out, err
}

// Remove removes a source, unless somebody has it open.
func (s *Store) Remove(d agentbox.Digest) error {
	gone, err := os.MkdirTemp(s.Dir, newPrefix)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.held[d] == 0 {
		err = os.Rename(s.path(d), filepath.Join(gone, "source"))
	}
	s.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(gone))
}

// Collect removes the sources that nobody needs and that were not used for a while (Grace).
func (s *Store) Collect(needed map[agentbox.Digest]bool) error {
	all, err := s.Unneeded(needed)
	for _, u := range all {
		if time.Since(u.Used) > Grace {
			err = errors.Join(err, s.Remove(u.Digest))
		}
	}
	return err
}
