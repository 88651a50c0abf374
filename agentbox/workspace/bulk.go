package workspace

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bulk is what Stage copies last: nearly all bytes of a repository, whose files are changed in place
// by nobody or are described by their times.
type Bulk struct {
	Files []File // the regular files and symbolic links of work trees, and git's objects
	Dirs  []Dir  // of work trees; parents come first
}

// File is a file that is about to be copied.
type File struct {
	Path string      // in the copy, slash-separated
	Info fs.FileInfo // of its source, when it was listed
	From string      // set by Options.Bulk: a regular file like it, to which the copy becomes a hard link
	// Object: git writes it once. The copy may be a hard link to it, and so may others be: its time of
	// change says nothing.
	Object bool
}

// Dir is a directory of a work tree.
type Dir struct {
	Path string // in the copy, slash-separated; "." for the top
	Mode fs.FileMode
}

// postpones reports whether a job is part of the bulk, and is not done yet.
func (s *stager) postpones(j job) bool { return s.opts.Bulk != nil && (!j.private || j.link) }

func (s *stager) dropBulk(below string) {
	kept := s.bulk[:0]
	for _, j := range s.bulk {
		if !strings.HasPrefix(j.dst, below+"/") {
			kept = append(kept, j)
		}
	}
	s.bulk = kept
}

// copyBulk copies what was postponed. Objects come first: one that has vanished since it was listed
// would be missing, which is an error, while a vanished file of a work tree is a deleted one.
func (s *stager) copyBulk(ctx context.Context) error {
	bulk, err := s.describeBulk()
	if err != nil {
		return err
	}
	if err := s.opts.Bulk(bulk); err != nil {
		return err
	}
	s.opts.Bulk = nil // postpone nothing more
	for _, d := range s.dirs {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return unwritable(d.path, err)
		}
	}
	var objects, files []job
	for i, j := range s.bulk {
		if j.from = bulk.Files[i].From; !j.private {
			files = append(files, j)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(j.dst), 0o755); err != nil {
			return unwritable(j.dst, err)
		}
		objects = append(objects, j)
	}
	all, err := s.copyAll(ctx, objects)
	if err == nil && all.vanished {
		err = rewrittenError(s.top)
	}
	if err == nil {
		_, err = s.copyAll(ctx, files)
	}
	return err
}

func (s *stager) describeBulk() (bulk Bulk, err error) {
	rel := func(path string) string {
		name, relErr := filepath.Rel(s.dst, path)
		if relErr != nil {
			err = relErr
		}
		return filepath.ToSlash(name)
	}
	for _, j := range s.bulk {
		bulk.Files = append(bulk.Files, File{Path: rel(j.dst), Info: j.info, Object: j.link})
	}
	for _, d := range s.dirs {
		bulk.Dirs = append(bulk.Dirs, Dir{Path: rel(d.path), Mode: d.mode.Perm() | 0o700})
	}
	return bulk, err
}

// CopyTree copies the named files of a tree that Stage made into dst, with their modes and times.
// The directories that they lie in must be there. paths are slash-separated. limit is as in Options.
func CopyTree(ctx context.Context, tree, dst string, paths []string, limit int64) error {
	s := &stager{opts: Options{Limit: limit}, dst: dst}
	jobs := make([]job, len(paths))
	for i, path := range paths {
		jobs[i] = job{src: filepath.Join(tree, filepath.FromSlash(path)), dst: filepath.Join(dst, filepath.FromSlash(path)), name: path}
	}
	all, err := s.copyAll(ctx, jobs)
	if err == nil && all.files < len(paths) {
		err = unreadable(tree, fs.ErrNotExist)
	}
	return err
}
