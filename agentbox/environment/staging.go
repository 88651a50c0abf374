package environment

import (
	"crypto/rand"
	"path"
	"sync"
)

// staging is where the files of one CopyTo are written before they get their names. A temporary
// name beside a file would be seen by what watches the tree: a build, a test runner. It is a
// directory in the git directory around the destination, which watchers leave out and which is in
// the same file system; without one, files are written beside their names.
type staging struct {
	files *Files
	once  sync.Once
	dir   string // "" without one
}

// temp returns an unused name for a file that is to become remote.
func (s *staging) temp(remote string) string {
	s.once.Do(func() { s.dir = s.make(path.Dir(remote)) })
	if s.dir == "" {
		return besideName(remote)
	}
	return path.Join(s.dir, rand.Text())
}

func besideName(remote string) string { return path.Join(path.Dir(remote), ".agentbox-"+rand.Text()) }

// make makes a directory in the nearest git directory at or above dir, and returns "" where there is
// none or it cannot be written.
func (s *staging) make(dir string) string {
	dir, err := s.files.sftp.RealPath(dir)
	if err != nil {
		return ""
	}
	for ; ; dir = path.Dir(dir) {
		git := path.Join(dir, ".git")
		if info, err := s.files.sftp.Lstat(git); err == nil && info.IsDir() {
			made := path.Join(git, "agentbox-"+rand.Text())
			if s.files.sftp.Mkdir(made) != nil {
				return ""
			}
			return made
		}
		if dir == "/" || dir == "." {
			return ""
		}
	}
}

// remove removes the directory. Nothing is in it any more, unless the connection is gone.
func (s *staging) remove() {
	s.once.Do(func() {})
	if s.dir != "" {
		s.files.sftp.RemoveDirectory(s.dir)
	}
}
