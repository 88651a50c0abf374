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

// job is one path to copy. dst must not exist, its directory must.
type job struct {
	src, dst string // absolute
	name     string // as people know it; for notes
	link     bool   // may be a hard link
	private  bool   // is part of a git directory, where links lead nowhere
	clean    bool   // text in which credentials may stand
}

// outcome is what became of a job. Only copied made something at dst.
type outcome int

const (
	copied outcome = iota
	leftOut
	vanished  // between the listing and the copy
	directory // of which nothing is copied
)

// workers is how many files are copied at once: enough to hide waiting for the disk, few enough not
// to overload it.
func workers() int { return min(8, 2*runtime.NumCPU()) }

// outcomes are those of many jobs.
type outcomes struct {
	files    int      // that were copied
	vanished bool     // at least one
	dirs     []string // names of those that were directories, sorted
}

// copyAll runs the jobs. The first error ends all.
func (s *stager) copyAll(ctx context.Context, jobs []job) (all outcomes, err error) {
	became := make([]outcome, len(jobs))
	var next atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for range min(workers(), len(jobs)) {
		g.Go(func() (err error) {
			for i := next.Add(1) - 1; i < int64(len(jobs)) && gctx.Err() == nil; i = next.Add(1) - 1 {
				if became[i], err = s.copyOne(jobs[i]); err != nil {
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
		case vanished:
			all.vanished = true
		case directory:
			all.dirs = append(all.dirs, jobs[i].name)
		}
	}
	slices.Sort(all.dirs)
	return all, nil
}

// copyOne decides by what is at src now, as the listing may be out of date. The limit counts what
// is about to be copied, so a copy never gets far beyond it; hard links cost nothing.
func (s *stager) copyOne(j job) (outcome, error) {
	fi, err := os.Lstat(j.src)
	switch {
	case gone(err):
		return vanished, nil
	case err != nil:
		return leftOut, unreadable(j.src, err)
	case fi.IsDir():
		return directory, nil
	case fi.Mode()&fs.ModeSymlink != 0 && j.private:
		return s.copyGitLink(j)
	case fi.Mode()&fs.ModeSymlink != 0:
		return copied, copyLink(j, fi)
	case !fi.Mode().IsRegular():
		s.note("%q is left out: it is neither a file, a directory nor a symbolic link", j.name)
		return leftOut, nil
	}
	// Where no link can be made, to another file system say, it is copied.
	if j.link && s.opts.Link && os.Link(j.src, j.dst) == nil {
		return copied, nil
	}
	if size := s.size.Add(fi.Size()); s.opts.Limit > 0 && size > s.opts.Limit {
		return leftOut, TooLarge(s.opts.Limit)
	}
	if j.clean {
		return copyClean(j)
	}
	return s.copyFile(j)
}

// attempts bounds how often a file that changes while it is copied is copied again.
const attempts = 3

// copyFile copies content, permissions and times. A file that somebody writes to meanwhile is
// copied again, so that what the copy holds was there at one moment; one that never rests is taken
// as it is, with a note.
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

// exists tells that something has the name, a link that leads nowhere included.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyContent makes dst, which must not exist, a copy of the regular file src. steady tells that
// src was the same before and after. Permissions are kept without set-id bits, and the time, by
// which git knows a file that is as in its index.
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

// copyLink copies a symbolic link as it is, wherever it leads: it is followed in the box only.
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

// copyGitLink makes a link in a git directory what git takes it for when it stands for a ref: a
// file that names the ref. Any other link stays behind.
func (s *stager) copyGitLink(j job) (outcome, error) {
	ref := linkedRef(j.src)
	if ref == "" {
		s.note("%q is left out: links in a git directory are not followed", j.name)
		return leftOut, nil
	}
	return copied, writeText(j.dst, "ref: "+ref+"\n")
}

// maxText bounds the texts in which credentials are looked for. Reflogs are what is that large.
const maxText = 64 << 20

// copyClean copies a text of git's own without the credentials older gits wrote into it.
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

// writeText writes a file of a copy's git directory.
func writeText(path, text string) error {
	return unwritable(path, os.WriteFile(path, []byte(text), 0o644))
}
