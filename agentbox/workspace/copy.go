package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"agentbox/agentbox/git"
)

// job is one path to copy. dst must not exist; its parent directory must.
type job struct {
	src, dst string // absolute
	name     string // the name to show in notes
	link     bool   // may become a hard link
	private  bool   // part of a git directory, where links are not followed
	clean    bool   // text that may contain credentials

	info fs.FileInfo // of src when it was listed, for a job of the bulk
	from string      // what becomes a hard link instead of a copy of src (File.From)
}

// outcome is the result of a job. Only copied creates something at dst.
type outcome int

const (
	copied outcome = iota
	leftOut
	vanished  // gone between listing and copying
	directory // nothing is copied
	postponed // part of the bulk
)

// workers returns how many files are copied at once: enough to hide disk latency, few enough not
// to overload the disk.
func workers() int { return min(8, 2*runtime.NumCPU()) }

// outcomes summarises the results of many jobs.
type outcomes struct {
	files    int      // copied
	vanished bool     // at least one
	dirs     []string // names of those that were directories, sorted
}

// copyAll runs the jobs concurrently and stops at the first error.
func (s *stager) copyAll(ctx context.Context, jobs []job) (all outcomes, err error) {
	became := make([]outcome, len(jobs))
	var next atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for range min(workers(), len(jobs)) {
		g.Go(func() (err error) {
			for i := next.Add(1) - 1; i < int64(len(jobs)) && gctx.Err() == nil; i = next.Add(1) - 1 {
				if became[i], err = s.copyOne(&jobs[i]); err != nil {
					return err
				}
			}
			return gctx.Err()
		})
	}
	if err := cmp.Or(g.Wait(), ctx.Err()); err != nil {
		return outcomes{}, err
	}
	for i, o := range became {
		switch o {
		case copied:
			all.files++
		case postponed:
			all.files++
			s.bulk = append(s.bulk, jobs[i])
		case vanished:
			all.vanished = true
		case directory:
			all.dirs = append(all.dirs, jobs[i].name)
		}
	}
	slices.Sort(all.dirs)
	return all, nil
}

// copyOne decides by what is at src now, since the listing may be out of date. The limit counts
// a file before it is copied, so a copy never exceeds it by much. Hard links cost nothing.
func (s *stager) copyOne(j *job) (outcome, error) {
	if j.from != "" && os.Link(j.from, j.dst) == nil {
		return copied, nil
	}
	fi, err := os.Lstat(j.src)
	switch {
	case gone(err):
		return vanished, nil
	case err != nil:
		return leftOut, unreadable(j.src, err)
	case fi.IsDir():
		return directory, nil
	case fi.Mode()&fs.ModeSymlink != 0 && j.private:
		return s.copyGitLink(*j)
	case fi.Mode()&fs.ModeSymlink != 0 && !s.postpones(*j):
		return copied, copyLink(*j, fi)
	case fi.Mode()&fs.ModeSymlink == 0 && !fi.Mode().IsRegular():
		s.note("%q is left out: it is neither a file, a directory nor a symbolic link", j.name)
		return leftOut, nil
	}
	if s.postpones(*j) {
		j.info = fi
		return postponed, nil
	}
	// Fall back to copying if linking fails, for example across file systems.
	if j.link && s.opts.Link && os.Link(j.src, j.dst) == nil {
		return copied, nil
	}
	if size := s.size.Add(fi.Size()); s.opts.Limit > 0 && size > s.opts.Limit {
		return leftOut, TooLarge(s.opts.Limit)
	}
	if j.clean {
		return copyClean(*j)
	}
	return s.copyFile(*j)
}

// attempts bounds how often a file that changes during the copy is copied again.
const attempts = 3

// copyFile copies content, permissions and times. A file that changes during the copy is copied
// again, so that the result existed at one moment. After the last attempt the copy is kept, with
// a note.
func (s *stager) copyFile(j job) (outcome, error) {
	for try := 1; ; try++ {
		steady, err := copyContent(j.src, j.dst)
		switch {
		case gone(err) && !exists(j.src):
			return vanished, nil
		case err != nil || steady:
			return copied, err
		case try == attempts:
			s.note("%q changed while it was copied", j.name)
			return copied, nil
		}
		if err := os.Remove(j.dst); err != nil {
			return leftOut, unwritable(j.dst, err)
		}
	}
}

// exists reports whether path exists, including as a dangling link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyContent copies the regular file src to dst, which must not exist. steady means that src
// did not change meanwhile. Permissions lose their set-id bits. The modification time is kept,
// because git uses it to recognise files that match the index.
func copyContent(src, dst string) (steady bool, err error) {
	in, err := git.OpenPlain(src)
	if err != nil {
		return false, unreadable(src, err)
	}
	defer in.Close()
	before, err := in.Stat()
	if err != nil {
		return false, unreadable(src, err)
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, unwritable(dst, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := transfer(out, in, before); err != nil {
		return false, unwritable(dst, err)
	}
	after, err := in.Stat()
	if err != nil {
		return false, unreadable(src, err)
	}
	// The owner can always read, because a disk is made from this tree.
	if err := out.Chmod(before.Mode().Perm() | 0o400); err != nil {
		return false, unwritable(dst, err)
	}
	if err := os.Chtimes(dst, before.ModTime(), before.ModTime()); err != nil {
		return false, unwritable(dst, err)
	}
	return after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()), nil
}

// copyLink copies a symbolic link as it is, wherever it leads: only the box follows it.
func copyLink(j job, fi fs.FileInfo) error {
	to, err := os.Readlink(j.src)
	if err != nil {
		return unreadable(j.src, err)
	}
	err = os.Symlink(to, j.dst)
	if err == nil {
		ts := unix.NsecToTimespec(fi.ModTime().UnixNano())
		err = unix.UtimesNanoAt(unix.AT_FDCWD, j.dst, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return unwritable(j.dst, err)
}

// copyGitLink converts a link in a git directory that stands for a ref into a file that names
// the ref, as git does. It omits any other link.
func (s *stager) copyGitLink(j job) (outcome, error) {
	ref := linkedRef(j.src)
	if ref == "" {
		s.note("%q is left out: links in a git directory are not followed", j.name)
		return leftOut, nil
	}
	return copied, writeText(j.dst, "ref: "+ref+"\n")
}

// maxText bounds, in bytes, texts that are searched for credentials, such as reflogs.
const maxText = 64 << 20

// copyClean copies a text file of git's without credentials that old versions wrote into it.
func copyClean(j job) (outcome, error) {
	data, err := git.ReadPlain(j.src, maxText)
	if gone(err) {
		return vanished, nil
	}
	if err != nil {
		return leftOut, unreadable(j.src, err)
	}
	return copied, writeText(j.dst, redact(string(data)))
}

// writeText writes a file in the git directory of a copy.
func writeText(path, text string) error {
	return unwritable(path, os.WriteFile(path, []byte(text), 0o644))
}
