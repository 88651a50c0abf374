package git

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Git blocks forever on a named pipe in place of a file that it reads, such as .gitignore. If
// someone opens the pipe for writing and closes it, git reads an empty file.
const (
	pipeWait  = time.Second            // most runs end before we need to look for pipes
	pipeEvery = 100 * time.Millisecond // between two attempts
)

// feedPipes unblocks a git that waits for a pipe below one of these directories, until ctx ends. It
// is started for every git that runs on a View, and usually ends before its first look.
//
// In a work tree it feeds only names that begin with .git, and what is below a .git. Git reads
// nothing else when it lists files, and other pipes may be in use.
func feedPipes(ctx context.Context, workTree, objects string) {
	if !sleep(ctx, pipeWait) {
		return
	}
	var feeds []func()
	for _, dir := range []string{workTree, objects} {
		if dir == "" {
			continue
		}
		root, err := os.OpenRoot(dir) // so that a link that replaces a pipe cannot lead out
		if err != nil {
			continue
		}
		defer root.Close()
		for _, path := range findPipes(ctx, root, dir == objects) {
			feeds = append(feeds, func() { feedPipe(root, path) })
		}
	}
	for next := true; next && len(feeds) > 0; next = sleep(ctx, pipeEvery) {
		for _, feed := range feeds {
			feed()
		}
	}
}

// findPipes lists the pipes below root: all of them, or only those that git reads in a work tree.
// It feeds each pipe as it finds it, because there may be millions of files to visit.
func findPipes(ctx context.Context, root *os.Root, all bool) (pipes []string) {
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir // git cannot read it either
		case err == nil && d.Type() == fs.ModeNamedPipe && (all || strings.Contains("/"+path, "/.git")):
			pipes = append(pipes, path)
			feedPipe(root, path)
		}
		return nil
	})
	return pipes
}

// feedPipe opens and closes a pipe. It fails at once if nobody reads from the pipe.
func feedPipe(root *os.Root, path string) {
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_ = f.Close() // nothing was written
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
