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
)

// walkers is how many goroutines look at the files of an include. A module cache has tens of
// thousands, every use of the recipe has to look at them all, and the time goes into system calls.
const walkers = 8

// walker finds the files of one include. Its goroutines have ended when walk returns.
type walker struct {
	ctx   context.Context
	from  string
	home  string
	never Never
	spare chan struct{} // one token for every goroutine that may still be started
	group sync.WaitGroup

	mu    sync.Mutex
	files []hostFile
	err   error
}

// walk gives everything at and below from, sorted so that a directory comes before what is in it.
// Credentials inside a harmless directory stay out, and so does what is no file, directory or
// symlink. Links are listed and not followed. The first error counts, and what was found is
// returned with it.
func walk(ctx context.Context, from, home string, never Never) ([]hostFile, error) {
	w := &walker{ctx: ctx, from: from, home: home, never: never, spare: make(chan struct{}, walkers)}
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
		w.dir("")
	}
	w.group.Wait()
	slices.SortFunc(w.files, func(a, b hostFile) int { return strings.Compare(a.rel, b.rel) })
	return w.files, w.err
}

// dir finds what is below one directory, with the help of other goroutines while there are idle
// ones.
func (w *walker) dir(rel string) {
	entries, err := os.ReadDir(filepath.Join(w.from, rel))
	if err == nil {
		err = w.ctx.Err()
	}
	found := make([]hostFile, 0, len(entries))
	for _, d := range entries {
		if err != nil {
			break
		}
		below := d.Name()
		if rel != "" {
			below = rel + "/" + below
		}
		// Sockets, pipes and devices mean nothing in an image.
		if t := d.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink || secret(w.from+"/"+below, w.home) {
			continue
		}
		var info fs.FileInfo
		if info, err = d.Info(); err != nil {
			break
		}
		if err = w.never.check(w.from, filepath.Join(w.from, below), info); err != nil {
			break
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			found = append(found, hostFile{below, info, stat})
		}
		if info.IsDir() {
			w.below(below)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, found...)
	if w.err == nil {
		w.err = err
	}
}

// below looks into a directory: in a goroutine of its own where one is to be had, else here.
func (w *walker) below(rel string) {
	select {
	case w.spare <- struct{}{}:
		w.group.Go(func() {
			defer func() { <-w.spare }()
			w.dir(rel)
		})
	default:
		w.dir(rel)
	}
}
