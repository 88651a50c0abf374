package image

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// walkers is how many goroutines list the files of an include. A module cache has tens of
// thousands, and every use of the recipe lists all of them.
const walkers = 8

// walker lists the files of an include.
type walker struct {
	ctx      context.Context
	from     string
	home     string
	excluded Exclusions
	group    *errgroup.Group

	mu    sync.Mutex
	files []hostFile
}

// walk lists everything at and below from, a directory before what is in it. It leaves out
// credentials, git directories, and what is no file, directory or symlink. It does not follow
// links, and returns the first error.
func walk(ctx context.Context, from, home string, excluded Exclusions) ([]hostFile, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(walkers)
	w := &walker{ctx: ctx, from: from, home: home, excluded: excluded, group: group}
	info, err := os.Lstat(from)
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: from, Err: fs.ErrInvalid}
	}
	w.files = []hostFile{{"", info, stat}}
	if info.IsDir() {
		group.Go(func() error { return w.dir("") })
	}
	err = group.Wait()
	slices.SortFunc(w.files, func(a, b hostFile) int { return strings.Compare(a.rel, b.rel) })
	return w.files, err
}

// dir lists what is below a directory, in other goroutines if there are idle ones.
func (w *walker) dir(rel string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(w.from, rel))
	if err != nil {
		return err
	}
	found := make([]hostFile, 0, len(entries))
	for _, d := range entries {
		below := strings.TrimPrefix(rel+"/"+d.Name(), "/")
		// Sockets, pipes and devices mean nothing in an image. A git directory has credentials in
		// its settings, and hooks.
		if t := d.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink || d.Name() == ".git" || secret(w.from+"/"+below, w.home) {
			continue
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := w.excluded.check(w.from, filepath.Join(w.from, below), info); err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			found = append(found, hostFile{below, info, stat})
		}
		if info.IsDir() && !w.group.TryGo(func() error { return w.dir(below) }) {
			if err := w.dir(below); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, found...)
	return nil
}
