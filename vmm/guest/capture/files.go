//go:build linux

package capture

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox/git/index"
)

// file is one of the work tree, as it was found.
type file struct{ syscall.Stat_t }

// mode is the one that git keeps.
func (f *file) mode() uint32 {
	switch {
	case f.Mode&syscall.S_IFMT == syscall.S_IFLNK:
		return modeLink
	case f.Mode&0o100 != 0:
		return 0o100755
	}
	return 0o100644
}

const modeLink = 0o120000

// walk lists the files of the work tree, ignored ones too. It refuses what may be another repository,
// names that git refuses, and files that are too large.
func (c *capture) walk() error {
	c.files = map[string]*file{}
	large := int64(c.number("LARGE", 1<<30)) << 10
	return filepath.WalkDir(c.root, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return other(err.Error())
		}
		if name == c.git {
			return fs.SkipDir
		}
		if isOdd(d.Name()) || d.Name() == "HEAD" && isRepository(filepath.Dir(name)) {
			return other(name)
		}
		if d.IsDir() {
			return nil
		}
		f := &file{}
		if err := syscall.Lstat(name, &f.Stat_t); errors.Is(err, os.ErrNotExist) {
			return nil
		} else if err != nil {
			return other(err.Error())
		}
		kind := f.Mode & syscall.S_IFMT
		if kind == syscall.S_IFREG && f.Size > large {
			return other("a large file")
		}
		if kind == syscall.S_IFREG || kind == syscall.S_IFLNK {
			c.files[name[len(c.root)+1:]] = f
		}
		return nil
	})
}

// isOdd tells whether a name is a .git, or is one on some file system, which git refuses to add.
func isOdd(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "git~") {
		return true
	}
	rest, ok := strings.CutPrefix(name, ".git")
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ` .:\`) || rest == "modules")
}

func isRepository(dir string) bool {
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// readIndex reads the index, and what takes more than its entries to tell is left to the script.
func (c *capture) readIndex() error {
	name := filepath.Join(c.git, "index")
	info, err := os.Stat(name)
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name)
	}
	if err == nil {
		c.indexTime = info.ModTime().Unix()
		c.index, err = index.Parse(text)
	}
	if err != nil {
		return other(err.Error())
	}
	for _, e := range c.index.Entries {
		if e.Special || e.Mode&syscall.S_IFMT == 0o160000 {
			return other(e.Path)
		}
	}
	return nil
}

// unchanged tells whether a file is the one of an entry, without a look into it (see doc.go).
func (c *capture) unchanged(e *index.Entry, f *file) bool {
	same := func(at index.Time, t syscall.Timespec) bool {
		return at.Sec == uint32(t.Sec) && at.Nsec == uint32(t.Nsec)
	}
	looks := e.Size == uint32(f.Size) && e.Mode == f.mode() && same(e.MTime, f.Mtim) && f.Mtim.Sec < c.indexTime &&
		(c.minimal || e.Inode == uint32(f.Ino)) && (c.minimal || !c.ctime || same(e.CTime, f.Ctim))
	return looks && (e.Size != 0 || e.ID == emptyBlob) // git writes 0 where it has to read the file
}

// compare finds what the work tree is, and how that differs from HEAD.
func (c *capture) compare(untracked []string) error {
	all := make([]entry, 0, len(c.index.Entries)+len(untracked))
	var unread []int // the places of what has to be read
	for i := range c.index.Entries {
		e := &c.index.Entries[i]
		f := c.files[e.Path]
		if f == nil {
			continue
		}
		if !c.unchanged(e, f) {
			unread = append(unread, len(all))
		}
		all = append(all, entry{e.Path, f.mode(), e.ID})
	}
	for _, name := range untracked {
		if f := c.files[name]; f != nil {
			unread = append(unread, len(all))
			all = append(all, entry{name, f.mode(), id{}})
		}
	}
	if err := c.read(all, unread); err != nil {
		return err
	}
	c.now = slices.DeleteFunc(all, func(e entry) bool { return e.mode == 0 })
	slices.SortFunc(c.now, func(x, y entry) int { return strings.Compare(x.path, y.path) })
	return c.compareHead()
}

// read hashes files. The mode of one that is not there any more becomes 0.
func (c *capture) read(all []entry, places []int) error {
	failed := make([]error, len(places))
	each(len(places), func(i int) { failed[i] = c.readOne(&all[places[i]]) })
	return errors.Join(failed...)
}

func (c *capture) readOne(e *entry) error {
	name := filepath.Join(c.root, e.path)
	if e.mode == modeLink {
		target, err := os.Readlink(name)
		if err == nil {
			e.id, err = c.object("blob", int64(len(target)), strings.NewReader(target))
		}
		return c.gone(e, err)
	}
	// Without O_NONBLOCK, opening a named pipe would wait for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return c.gone(e, err)
	}
	defer f.Close()
	return c.gone(e, steady(f.Stat, func(size int64) (err error) {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			e.id, err = c.object("blob", size, c.whole(io.LimitReader(f, size)))
		}
		return err
	}))
}

const (
	// rounds is how often a file that changes while it is read is read. Then what was read has to do: of
	// one that only grows, it is what it was.
	rounds = 3
	// tick is more than what the times of two changes have to differ by.
	tick = 20 * time.Millisecond
)

// steady reads a file that stat describes so that what was read is what it was at one moment, if it does
// not always change.
func steady(stat func() (fs.FileInfo, error), read func(size int64) error) (failed error) {
	for range rounds {
		before, err := stat()
		if err == nil {
			if age := time.Since(before.ModTime()); age >= 0 && age < tick { // the next change could look the same
				time.Sleep(tick - age)
				before, err = stat()
			}
		}
		if err != nil || !before.Mode().IsRegular() {
			return other("a file that became something else")
		}
		failed = read(before.Size())
		after, err := stat()
		if err == nil && after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()) {
			break
		}
	}
	return failed
}

// gone makes an entry of a file that is not there any more one of none.
func (c *capture) gone(e *entry, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		e.mode, err = 0, nil
	}
	if err != nil && !errors.Is(err, errOther) {
		err = other(err.Error())
	}
	return err
}

// whole reads a file, and fails at a carriage return if git would convert that.
func (c *capture) whole(r io.Reader) io.Reader {
	if c.converts {
		return unconverted{r}
	}
	return r
}

type unconverted struct{ io.Reader }

func (u unconverted) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if bytes.IndexByte(p[:n], '\r') >= 0 {
		return n, other("a carriage return")
	}
	return n, err
}
