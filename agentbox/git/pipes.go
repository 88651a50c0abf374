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

// Git waits for ever at a pipe that has the name of a file it reads in a work tree, .gitignore say.
// To a reader that waits, a pipe that somebody opens for writing and closes is an empty file.
const (
	pipePatience = time.Second            // most listings end before anybody need look for pipes
	pipeEvery    = 100 * time.Millisecond // between two tries
)

// feedPipes has git go on where it waits for a pipe in a work tree, until ctx ends. It is started
// for every git over a work tree and mostly ends before it looks. Only names that begin with .git
// are fed: git opens no other file of a work tree while it lists.
func feedPipes(ctx context.Context, workTree string) {
	if !waits(ctx, pipePatience) {
		return
	}
	root, err := os.OpenRoot(workTree) // so that no link that takes a pipe's place leads out
	if err != nil {
		return
	}
	defer root.Close()
	var pipes []string
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir // git cannot read it either
		case err == nil && d.Type() == fs.ModeNamedPipe && strings.HasPrefix(d.Name(), ".git"):
			pipes = append(pipes, path)
			feedPipe(root, path)
		}
		return nil
	})
	for len(pipes) > 0 && waits(ctx, pipeEvery) {
		for _, path := range pipes {
			feedPipe(root, path)
		}
	}
}

// feedPipe opens and closes a pipe. Where nobody waits for it, that fails at once.
func feedPipe(root *os.Root, path string) {
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_ = f.Close() // nothing was written
	}
}

// waits tells whether d passed before ctx ended.
func waits(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
