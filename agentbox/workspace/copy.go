package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"agentbox/agentbox/git"
)

// job is one path to copy. dst must not exist, its directory must. gone, where set, is told that
// src vanished between the listing and the copy.
type job struct {
	src, dst string       // absolute
	name     string       // as people know it; for notes
	link     bool         // may be a hard link
	private  bool         // is part of a git directory, where links lead nowhere
	clean    bool         // text in which credentials may stand
	gone     *atomic.Bool // nil where nobody asks
}

// outcome is what became of a job. With absent and isDir nothing was made at dst.
type outcome struct {
	bytes  int64
	linked bool
	isDir  bool // a directory: nothing was copied
	absent bool // not there any more
}

// workers is how many files are copied at once: enough to hide waiting for the disk, few enough not
// to overload it.
func workers() int { return min(8, 2*runtime.NumCPU()) }

// copyAll runs the jobs and counts them. It returns the names of those that were directories,
// sorted. files and bytes are added to and may be shared by several calls, as may s.stats; they are
// guarded here by a lock of this call, so calls that share them go one after the other. The first
// error ends all.
func (s *stager) copyAll(ctx context.Context, jobs []job, files *int, bytes *int64) ([]string, error) {
	var next atomic.Int64
	var mu sync.Mutex
	var dirs []string
	g, gctx := errgroup.WithContext(ctx)
	// Each worker sums on its own, and takes the lock once.
	for range min(workers(), len(jobs)) {
		g.Go(func() error {
			var n, linked int
			var sum int64
			var mine []string
			for i := next.Add(1) - 1; i < int64(len(jobs)) && gctx.Err() == nil; i = next.Add(1) - 1 {
				o, err := s.copyOne(jobs[i])
				if err != nil {
					return err
				}
				switch {
				case o.isDir:
					mine = append(mine, jobs[i].name)
				case !o.absent:
					n, sum = n+1, sum+o.bytes
				}
				if o.linked {
					linked++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			*files, *bytes, s.stats.Linked = *files+n, *bytes+sum, s.stats.Linked+linked
			dirs = append(dirs, mine...)
			return gctx.Err()
		})
	}
	err := g.Wait()
	if err == nil {
		err = ctx.Err()
	}
	slices.Sort(dirs)
	return dirs, err
}

// copyOne decides by what is at src now, as the listing may be out of date. The limit counts what
// is about to be copied, so a copy never gets far beyond it; hard links cost nothing.
func (s *stager) copyOne(j job) (outcome, error) {
	fi, err := os.Lstat(j.src)
	if gone(err) {
		if j.gone != nil {
			j.gone.Store(true)
		}
		return outcome{absent: true}, nil
	}
	if err != nil {
		return outcome{}, unreadable(j.src, err)
	}
	switch {
	case fi.IsDir():
		return outcome{isDir: true}, nil
	case fi.Mode()&fs.ModeSymlink != 0 && j.private:
		return s.copyGitLink(j)
	case fi.Mode()&fs.ModeSymlink != 0:
		return copyLink(j, fi)
	case !fi.Mode().IsRegular():
		s.note("%q is left out: it is neither a file, a directory nor a symbolic link", j.name)
		return outcome{absent: true}, nil
	}
	// Where no link can be made, to another file system say, it is copied.
	if j.link && s.opts.Link && os.Link(j.src, j.dst) == nil {
		return outcome{bytes: fi.Size(), linked: true}, nil
	}
	if s.size.Add(fi.Size()) > s.limit {
		return outcome{}, errTooLarge
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
		n, steady, err := copyContent(j.src, j.dst)
		switch {
		case gone(err) && !exists(j.src):
			if j.gone != nil {
				j.gone.Store(true)
			}
			return outcome{absent: true}, nil
		case err != nil:
			return outcome{}, err
		case steady:
			return outcome{bytes: n}, nil
		case try == attempts:
			s.note("%q changed while it was copied", j.name)
			return outcome{bytes: n}, nil
		}
		if err := os.Remove(j.dst); err != nil {
			return outcome{}, unwritable(j.dst, err)
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
func copyContent(src, dst string) (n int64, steady bool, err error) {
	in, err := git.OpenPlain(src)
	if err != nil {
		return 0, false, unreadable(src, err)
	}
	defer in.Close()
	before, err := in.Stat()
	if err != nil {
		return 0, false, unreadable(src, err)
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, false, unwritable(dst, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if n, err = transfer(out, in, before); err != nil {
		return n, false, unwritable(dst, err)
	}
	after, err := in.Stat()
	if err != nil {
		return n, false, unreadable(src, err)
	}
	// The owner can always read, because a disk is made from this tree.
	if err := out.Chmod(before.Mode().Perm() | 0o400); err != nil {
		return n, false, unwritable(dst, err)
	}
	if err := os.Chtimes(dst, before.ModTime(), before.ModTime()); err != nil {
		return n, false, unwritable(dst, err)
	}
	return n, after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()), nil
}

// copyLink copies a symbolic link as it is, wherever it leads: it is followed in the box only.
func copyLink(j job, fi fs.FileInfo) (outcome, error) {
	to, err := os.Readlink(j.src)
	if err != nil {
		return outcome{}, unreadable(j.src, err)
	}
	if err := os.Symlink(to, j.dst); err != nil {
		return outcome{}, unwritable(j.dst, err)
	}
	ts := unix.NsecToTimespec(fi.ModTime().UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, j.dst, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return outcome{}, unwritable(j.dst, err)
	}
	return outcome{bytes: fi.Size()}, nil
}

// copyGitLink makes a link in a git directory what git takes it for when it stands for a ref: a
// file that names the ref. Any other link stays behind.
func (s *stager) copyGitLink(j job) (outcome, error) {
	ref := linkedRef(j.src)
	if ref == "" {
		s.note("%q is left out: links in a git directory are not followed", j.name)
		return outcome{absent: true}, nil
	}
	text := "ref: " + ref + "\n"
	if err := os.WriteFile(j.dst, []byte(text), 0o644); err != nil {
		return outcome{}, unwritable(j.dst, err)
	}
	return outcome{bytes: int64(len(text))}, nil
}

// maxText bounds the texts in which credentials are looked for. Reflogs are what is that large.
const maxText = 64 << 20

// copyClean copies a text of git's own without the credentials older gits wrote into it.
func copyClean(j job) (outcome, error) {
	data, err := git.ReadPlain(j.src, maxText)
	if gone(err) {
		return outcome{absent: true}, nil
	}
	if err != nil {
		return outcome{}, unreadable(j.src, err)
	}
	if err := os.WriteFile(j.dst, []byte(redact(string(data))), 0o644); err != nil {
		return outcome{}, unwritable(j.dst, err)
	}
	return outcome{bytes: int64(len(data))}, nil
}
