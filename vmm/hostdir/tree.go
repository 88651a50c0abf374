package hostdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
)

// treeCopy copies a directory tree with names, modes, times, symlinks and hard links. This
// process's user owns the copies. Sockets and devices are left out. Links are never followed.
// Nothing may change the tree meanwhile: its machine is frozen or has ended.
type treeCopy struct {
	ctx   context.Context
	from  string
	to    string
	limit int64            // in bytes; 0 means none
	size  int64            // bytes of files copied so far, each counted once
	links map[inode]string // the first copy of each file with several names
}

type inode struct{ dev, ino uint64 }

// CopyTree copies what is in src into the existing directory dst, whose own mode and times stay. If
// all files together have more than limit bytes, the error has code NoSpace; 0 means no limit.
// After an error the caller removes what was copied.
func CopyTree(ctx context.Context, dst, src string, limit int64) error {
	c := &treeCopy{ctx: ctx, from: src, to: dst, limit: limit, links: map[inode]string{}}
	return c.directory("")
}

// directory copies a directory's entries and then, as copying changes them, its mode and times.
func (t *treeCopy) directory(rel string) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	info, err := os.Lstat(filepath.Join(t.from, rel))
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(t.from, rel))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := t.entry(filepath.Join(rel, e.Name())); err != nil {
			return err
		}
	}
	if rel == "" {
		return nil
	}
	target := filepath.Join(t.to, rel)
	return errors.Join(chmod(target, info), setTimes(target, info))
}

// entry copies one entry. A directory gets its mode last, since it may forbid writing.
func (t *treeCopy) entry(rel string) error {
	src, dst := filepath.Join(t.from, rel), filepath.Join(t.to, rel)
	info, err := os.Lstat(src)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := os.Mkdir(dst, 0o700); err != nil {
			return err
		}
		return t.directory(rel)
	case fs.ModeSymlink:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, dst); err != nil {
			return err
		}
		return setTimes(dst, info)
	case fs.ModeNamedPipe:
		return errors.Join(unix.Mkfifo(dst, 0o600), chmod(dst, info))
	case 0:
		return t.file(dst, src, info)
	}
	return nil
}

// file copies a regular file, or links to the copy of its other name.
func (t *treeCopy) file(dst, src string, info fs.FileInfo) error {
	st, _ := info.Sys().(*syscall.Stat_t)
	if st != nil && st.Nlink > 1 {
		id := inode{uint64(st.Dev), st.Ino}
		if first := t.links[id]; first != "" {
			return os.Link(first, dst)
		}
		t.links[id] = dst
	}
	if t.size += info.Size(); t.limit > 0 && t.size > t.limit {
		return agentbox.Errorf(agentbox.NoSpace, "the workspace does not fit into the box's disk of %d bytes", t.limit).WithHint("set disk: to more")
	}
	if err := copyContent(dst, src, info.Size()); err != nil {
		return err
	}
	return errors.Join(chmod(dst, info), setTimes(dst, info))
}

// copyContent copies size bytes of src to a new file. It shares blocks where the file system can.
func copyContent(dst, src string, size int64) (err error) {
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	return copyData(to, from, size)
}

// copyData copies the parts of a file that are not holes: a box can make a file of a terabyte that
// takes one block.
func copyData(to, from *os.File, size int64) error {
	for at := int64(0); at < size; {
		start, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole is left
			break
		}
		if err != nil {
			return err
		}
		if at, err = from.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		_, err1 := from.Seek(start, io.SeekStart)
		_, err2 := to.Seek(start, io.SeekStart)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, at-start); err != nil {
			return err
		}
	}
	return to.Truncate(size)
}

// chmod sets permissions with setuid, setgid and sticky bits.
func chmod(path string, info fs.FileInfo) error {
	return os.Chmod(path, info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

// setTimes sets both times of a copy to the modification time of the original. It follows no link.
func setTimes(path string, info fs.FileInfo) error {
	ts := unix.NsecToTimespec(info.ModTime().UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "set times", Path: path, Err: err}
	}
	return nil
}

func removeContent(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// ListTree writes a line for each entry of a tree, sorted by name: everything that a copy must
// preserve except for the bytes of files. Times of directories, which reading a copy changes, and
// owners, who are always the caller, are left out.
func ListTree(w io.Writer, root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target, size, changed := "", int64(0), info.ModTime().UnixNano()
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		case fs.ModeDir:
			changed = 0
		case 0:
			size = info.Size()
		}
		_, err = fmt.Fprintf(w, "%q %v %d %d %q\n", rel, info.Mode(), size, changed, target)
		return err
	})
}
