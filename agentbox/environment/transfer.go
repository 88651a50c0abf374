package environment

import (
	"context"
	"io/fs"
	"path"

	"golang.org/x/sync/errgroup"

	"agentbox/agentbox"
)

// parallelFiles is how many files a copy has in flight: small ones cost round trips, not bandwidth.
const parallelFiles = 16

// ends is where a copy comes from and goes to. from and to are paths at either side. file is called
// concurrently with the walk, unless the copy is in order. Only the walk calls the other methods,
// parents first.
type ends interface {
	file(ctx context.Context, from, to string, info fs.FileInfo) error
	link(from, to string, info fs.FileInfo) error
	mkdir(to string, info fs.FileInfo) error // which may be there already
	list(ctx context.Context, from string) ([]fs.FileInfo, error)
	setAttributes(to string, info fs.FileInfo) error // gives a directory the mode and time of its original
	label(from, to string) string                    // what progress calls them
}

// transfer is one copy of a file or a tree.
type transfer struct {
	ends
	meter    *meter
	keepTop  bool // the top directory existed before and keeps its mode
	leaveGit bool // git directories are left out
	inOrder  bool // one file follows the other
	work     *errgroup.Group
	dirs     []madeDir // in the order they were made: parents first
	held     int       // bytes that dirs takes, about
}

// What dirs may take: some hundred thousand directories. A lying server could describe a tree
// without end.
const (
	maxHeld     = 256 << 20 // bytes
	madeDirSize = 512       // of one, beside its name
)

// madeDir is a directory that gets its mode and time when nothing is written into it any more.
type madeDir struct {
	name string
	info fs.FileInfo
}

// run walks the tree and copies files concurrently. The first failure ends both and is returned.
// The limit is parallelFiles and one, as the walk takes one itself. Directories get their mode and
// time last, when nothing is written into them any more.
func (t *transfer) run(ctx context.Context, from, to string, info fs.FileInfo) error {
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(parallelFiles + 1)
	t.work = work
	work.Go(func() error { return t.copy(working, from, to, info) })
	if err := work.Wait(); err != nil {
		return err
	}
	if t.keepTop && len(t.dirs) > 0 {
		t.dirs = t.dirs[1:]
	}
	return setAllAttributes(t.dirs, t.setAttributes)
}

// setAllAttributes starts with the innermost directory: changing one alters the time of its parent.
func setAllAttributes(dirs []madeDir, setAttributes func(string, fs.FileInfo) error) error {
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := setAttributes(dirs[i].name, dirs[i].info); err != nil {
			return err
		}
	}
	return nil
}

// copy copies one entry, or begins to copy a file concurrently.
func (t *transfer) copy(ctx context.Context, from, to string, info fs.FileInfo) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch info.Mode().Type() {
	case 0:
		file := func() error { return t.counted(from, to, t.file(ctx, from, to, info)) }
		if t.inOrder {
			return file()
		}
		t.work.Go(file)
		return nil
	case fs.ModeDir:
		return t.counted(from, to, t.dir(ctx, from, to, info))
	case fs.ModeSymlink:
		return t.counted(from, to, t.link(from, to, info))
	}
	t.meter.skip(t.label(from, to), special+info.Mode().String())
	return nil
}

// counted reports an entry that was copied without error.
func (t *transfer) counted(from, to string, err error) error {
	if err == nil {
		t.meter.add(t.label(from, to), 1, 0)
	}
	return err
}

// dir makes a directory and copies its content, without git directories if they are to be left out.
// list bounds the depth.
func (t *transfer) dir(ctx context.Context, from, to string, info fs.FileInfo) error {
	if err := t.mkdir(to, info); err != nil {
		return err
	}
	t.dirs = append(t.dirs, madeDir{to, info})
	if t.held += len(to) + madeDirSize; t.held > maxHeld {
		return agentbox.Errorf(agentbox.Conflict, "%d directories are more than can be copied at once", len(t.dirs)).WithHint("copy parts of the tree")
	}
	entries, err := t.list(ctx, from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		from, to := path.Join(from, e.Name()), path.Join(to, e.Name())
		if t.leaveGit && isGit(e.Name()) {
			t.meter.skip(t.label(from, to), gitSkipped)
		} else if err := t.copy(ctx, from, to, e); err != nil {
			return err
		}
	}
	return nil
}
