package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"agentbox/agentbox"
)

// dirTimes holds the mode and time that a directory of the copy gets once it is complete.
type dirTimes struct {
	path string
	mode fs.FileMode
	time time.Time
}

// tree copies the listed paths and returns those that are directories: submodules and nested
// repositories. paths are slash-separated and relative to src. Directories are created first,
// then the files are copied concurrently. Empty directories are not listed, because git does not
// track them.
func (s *stager) tree(ctx context.Context, src, dst string, paths []string) (nested []string, err error) {
	dirs := map[string]bool{".": true}
	if err := s.rootDir(src, dst); err != nil {
		return nil, err
	}
	jobs := make([]job, 0, len(paths))
	for _, path := range paths {
		path = strings.TrimSuffix(path, "/")
		// Not ok: git lists a file that is no longer in the work tree.
		ok, err := s.parents(src, dst, filepath.Dir(path), dirs)
		if err != nil {
			return nil, err
		}
		if ok {
			jobs = append(jobs, job{src: filepath.Join(src, path), dst: filepath.Join(dst, path), name: path})
		}
	}
	all, err := s.copyAll(ctx, jobs)
	s.stats.Files += all.files
	return all.dirs, err
}

// rootDir has finishDirs copy the mode and time of the top of a work tree.
func (s *stager) rootDir(src, dst string) error {
	fi, err := os.Stat(src)
	if err != nil {
		return unreadable(src, err)
	}
	s.dirs = append(s.dirs, dirTimes{dst, fi.Mode(), fi.ModTime()})
	return nil
}

// parents creates dir and its parents in the copy and reports whether they are directories in
// the original. If a symbolic link has replaced a directory, git counts the files below it as
// deleted, and so does this: the link may lead anywhere.
func (s *stager) parents(src, dst, dir string, done map[string]bool) (bool, error) {
	if ok, known := done[dir]; known {
		return ok, nil
	}
	ok, err := s.parents(src, dst, filepath.Dir(dir), done)
	if err != nil {
		return false, err
	}
	done[dir] = false
	if !ok {
		return false, nil
	}
	fi, err := os.Lstat(filepath.Join(src, dir))
	if gone(err) || err == nil && !fi.IsDir() {
		return false, nil
	}
	if err != nil {
		return false, unreadable(filepath.Join(src, dir), err)
	}
	path := filepath.Join(dst, dir)
	if s.opts.Bulk == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		return false, unwritable(path, err)
	}
	s.dirs = append(s.dirs, dirTimes{path, fi.Mode(), fi.ModTime()})
	done[dir] = true
	return true, nil
}

// finishDirs sets the modes and times of the work tree's directories. Their owner can always
// write to them, so that the copy can be removed.
func (s *stager) finishDirs() error {
	for _, d := range s.dirs {
		err := os.Chmod(d.path, d.mode.Perm()|0o700)
		if err == nil {
			err = os.Chtimes(d.path, d.time, d.time)
		}
		if err != nil {
			return unwritable(d.path, err)
		}
	}
	return nil
}

// gone reports whether err means that a path does not exist, or a parent is no directory.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// unreadable returns the error for a file that cannot be read, with code Missing if permission
// is denied. It returns nil if err is nil.
func unreadable(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return agentbox.Errorf(agentbox.Missing, "cannot read %q: %w", path, reason(err)).
			WithHint("give yourself the right to read it, or name it in .gitignore to leave it out")
	}
	return agentbox.Errorf(agentbox.Internal, "cannot read %q: %w", path, reason(err))
}

// unwritable returns the error for a path that cannot be written, with code NoSpace if the disk
// is full or a quota is exceeded. It returns nil if err is nil.
func unwritable(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return agentbox.Classify(agentbox.NoSpace, "no room to stage the workspace in %q: %w", path, reason(err)).
			WithHint("free some disk space: agentbox prune --dry-run shows what agentbox itself can give back")
	}
	return agentbox.Errorf(agentbox.Internal, "cannot write %q: %w", path, reason(err))
}

// reason returns the cause without the path, which the message already has.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
