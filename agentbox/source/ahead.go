package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// ahead is a copy of a source, made before it is known what for.
type ahead struct {
	from Captured
	*manifest
	dir  string        // which has nothing else
	done chan struct{} // closed when it is whole, or err is set
	err  error
}

// Bounds of what CopyAhead copies, in bytes, and of how long it stays.
const (
	maxAhead  = 2 << 30
	aheadTime = 10 * time.Second
)

// CopyAhead begins to copy the source of a project that was made last, if there is one: while the next one
// is still to come, which is much the same. Apply of that takes the copy, once, and has but the difference
// to write. A copy that nobody takes soon is dropped.
func (s *Store) CopyAhead(project string) {
	before, let := s.lastMade(project)
	size := int64(0)
	if before.manifest != nil {
		for _, e := range before.Entries {
			size += e.Size
		}
	}
	dir, err := "", error(nil)
	if before.manifest != nil && size < maxAhead {
		dir, err = os.MkdirTemp(s.Dir, newPrefix)
	}
	if dir == "" || err != nil {
		let()
		return
	}
	a := &ahead{from: Captured{store: s, digest: before.digest}, manifest: before.manifest, dir: dir, done: make(chan struct{})}
	a.from.repo.Root = before.tree
	s.replaceAhead(project, nil, a)
	go func() {
		defer let()
		_, a.err = a.from.copyTo(context.Background(), before.manifest, filepath.Join(dir, treeDir), 0, nil, func(err error) error { return err })
		close(a.done)
		time.AfterFunc(aheadTime, func() { s.replaceAhead(project, a, nil) })
	}()
}

// replaceAhead removes the copy of a project that nobody took, old or, if that is nil, any. now is in its
// place; nil for none.
func (s *Store) replaceAhead(project string, old, now *ahead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.ahead[project]
	if old != nil && there != old {
		return
	}
	if s.ahead[project] = now; now == nil {
		delete(s.ahead, project)
	}
	if there != nil {
		go func() {
			<-there.done
			os.RemoveAll(there.dir) // the next daemon removes what stays
		}()
	}
}

// takeAhead moves the copy of a project into dst, which is empty, without what m has not, or not so. It
// returns which paths are there; none without a copy.
func (s *Store) takeAhead(ctx context.Context, m *manifest, dst string) (there map[string]bool, err error) {
	s.mu.Lock()
	a := s.ahead[m.Project]
	delete(s.ahead, m.Project)
	s.mu.Unlock()
	if a == nil {
		return nil, nil
	}
	defer os.RemoveAll(a.dir)
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join(a.dir, treeDir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // the inode of dst stays: somebody may have it open
		if os.Rename(filepath.Join(a.dir, treeDir, e.Name()), filepath.Join(dst, e.Name())) != nil { // another file system
			for _, e := range entries {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dst, e.Name())))
			}
			return nil, err
		}
	}
	want := make(map[string]entry, len(m.Entries))
	for _, e := range m.Entries {
		want[e.Path] = e
	}
	there = map[string]bool{}
	for _, e := range a.Entries {
		now := want[e.Path]
		if there[e.Path] = now == e || now.Kind == kindDir && e.Kind == kindDir; !there[e.Path] {
			if err := os.RemoveAll(filepath.Join(dst, filepath.FromSlash(e.Path))); err != nil {
				return nil, err
			}
		}
	}
	return there, nil
}
