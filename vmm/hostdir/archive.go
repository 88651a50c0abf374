package hostdir

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
)

// WriteArchive writes what CopyTree copies of a tree as a tar, holes as zeros. Its files may have limit
// bytes; with more the error is NoSpace. Nothing may change the tree meanwhile. own are its pieces, which are
// not written if they are there; nil writes all.
func WriteArchive(ctx context.Context, w io.Writer, tree string, limit int64, own *Pieces, there map[agentbox.Digest]bool) error {
	a := &archive{out: tar.NewWriter(w), tree: tree, left: limit, links: map[inode]string{}, own: own, there: there}
	err := filepath.WalkDir(tree, func(at string, e fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || at == tree {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return a.entry(at, info)
	})
	if err != nil {
		return err
	}
	return a.out.Close()
}

type archive struct {
	out   *tar.Writer
	tree  string
	left  int64            // bytes that files may still have
	links map[inode]string // the first name of each file with several
	own   *Pieces
	there map[agentbox.Digest]bool
}

func (a *archive) entry(at string, info fs.FileInfo) error {
	target := ""
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		var err error
		if target, err = os.Readlink(at); err != nil {
			return err
		}
	case fs.ModeDir, fs.ModeNamedPipe, 0:
	default:
		return nil // sockets and devices
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(a.tree, at)
	if err != nil {
		return err
	}
	h.Name, h.Format = filepath.ToSlash(rel), tar.FormatPAX
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	st, _ := info.Sys().(*syscall.Stat_t)
	if info.Mode().IsRegular() && st != nil && st.Nlink > 1 {
		id := inode{uint64(st.Dev), st.Ino}
		if first := a.links[id]; first != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		} else {
			a.links[id] = h.Name
		}
	}
	if a.left -= h.Size; a.left < 0 {
		return agentbox.Errorf(agentbox.NoSpace, "its files have more bytes than its disk, as holes count")
	}
	if h.Typeflag != tar.TypeReg {
		return a.out.WriteHeader(h)
	}
	return a.file(at, h)
}

func (a *archive) file(at string, h *tar.Header) error {
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	cuts, encoded := a.shared(h.Name, h.Size)
	if cuts == nil {
		if err := a.out.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.CopyN(a.out, f, h.Size)
		return err
	}
	h.PAXRecords, h.Size = map[string]string{sizeRecord: strconv.FormatInt(h.Size, 10)}, encoded
	if err := a.out.WriteHeader(h); err != nil {
		return err
	}
	return a.writePieces(f, cuts)
}

// maxName is Linux's PATH_MAX.
const maxName = 4096

// entryCost is what each entry of an archive counts beside its bytes: it takes room, too.
const entryCost = 512

// ReadArchive writes what WriteArchive wrote of a tree, somewhere else and perhaps by somebody who
// wants harm, into the empty directory tree. Nothing is written outside of it, and at most limit bytes.
// What makes no sense is Corrupt. Nothing is synced; after an error the caller removes the tree. have are
// pieces which that was told are here.
func ReadArchive(ctx context.Context, tree string, r io.Reader, limit int64, have Index) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	in := tar.NewReader(r)
	var dirs []*tar.Header // modes and times last: they may forbid writing, and writing changes them
	for ctx.Err() == nil {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			for _, d := range slices.Backward(dirs) {
				if err := errors.Join(root.Chmod(d.Name, modeOf(d)), setTimesIn(root, d)); err != nil {
					return corruptEntry(d, err)
				}
			}
			return nil
		}
		if err != nil {
			return agentbox.Classify(agentbox.Corrupt, "an archive cannot be read: %w", err)
		}
		if h.Name = path.Clean(h.Name); h.Name == "." || !filepath.IsLocal(h.Name) || len(h.Name) > maxName {
			return corruptEntry(h, errors.New("it leads elsewhere"))
		}
		size, err := sizeOf(h)
		if err != nil {
			return corruptEntry(h, err)
		}
		if size > limit-entryCost {
			return agentbox.Errorf(agentbox.NoSpace, "an archive has more in it than there is room for")
		}
		limit -= size + entryCost
		if err := readEntry(root, h, in, have); err != nil {
			return corruptEntry(h, err)
		}
		if h.Typeflag == tar.TypeDir {
			dirs = append(dirs, h)
		}
	}
	return ctx.Err()
}

// sizeOf is the size of the file that an entry is of.
func sizeOf(h *tar.Header) (int64, error) {
	text, ok := h.PAXRecords[sizeRecord]
	if !ok {
		return h.Size, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || h.Typeflag != tar.TypeReg {
		return 0, fmt.Errorf("it has %.20q bytes", text)
	}
	return n, nil
}

// corruptEntry is the error about an entry, unless this machine's disk is at fault.
func corruptEntry(h *tar.Header, err error) error {
	if err = agentbox.MarkNoSpace(err); agentbox.CodeOf(err) == agentbox.NoSpace {
		return err
	}
	return agentbox.Classify(agentbox.Corrupt, "an archive has %.80q in it: %w", h.Name, err)
}

func modeOf(h *tar.Header) fs.FileMode {
	return h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

// readEntry makes one entry, which must not exist, so that nothing is written through an earlier one.
func readEntry(root *os.Root, h *tar.Header, content io.Reader, have Index) error {
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		return root.Mkdir(h.Name, 0o700)
	case tar.TypeLink:
		target := path.Clean(h.Linkname)
		if info, err := root.Lstat(target); err != nil || !info.Mode().IsRegular() {
			return errors.New("it links to no file")
		}
		return root.Link(target, h.Name)
	case tar.TypeSymlink:
		err = root.Symlink(h.Linkname, h.Name)
	case tar.TypeFifo:
		err = inParent(root, h.Name, func(dir int, name string) error { return unix.Mkfifoat(dir, name, 0o600) })
	case tar.TypeReg:
		err = readFile(root, h, content, have)
	default:
		return errors.New("nothing of this kind can be in it")
	}
	if err == nil && h.Typeflag != tar.TypeSymlink {
		err = root.Chmod(h.Name, modeOf(h))
	}
	if err != nil {
		return err
	}
	return setTimesIn(root, h)
}

func readFile(root *os.Root, h *tar.Header, content io.Reader, have Index) error {
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, inPieces := h.PAXRecords[sizeRecord]; inPieces {
		size, sizeErr := sizeOf(h)
		err = errors.Join(sizeErr, have.readPieces(f, size, content))
	} else {
		_, err = io.Copy(&eager{f: f}, content)
	}
	beginSync(f)
	return errors.Join(err, f.Close())
}

// eagerBytes is how much of a file is given to the disk at once, which likes smaller files together.
const eagerBytes = 8 << 20

// eager writes a file, and has the disk begin meanwhile: who waits for all of it in the end waits for less.
type eager struct {
	f    *os.File
	n    int64
	then int64 // where what the disk does not have yet begins
}

func (e *eager) Write(p []byte) (int, error) {
	n, err := e.f.Write(p)
	if e.n += int64(n); e.n-e.then >= eagerBytes {
		// It is only faster with it.
		_ = unix.SyncFileRange(int(e.f.Fd()), e.then, e.n-e.then, unix.SYNC_FILE_RANGE_WRITE)
		e.then = e.n
	}
	return n, err
}

// beginSync has the disk begin with a file, unless it is small.
func beginSync(f *os.File) {
	if info, err := f.Stat(); err == nil && info.Size() >= eagerBytes/8 {
		_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
}

func setTimesIn(root *os.Root, h *tar.Header) error {
	ts := unix.NsecToTimespec(h.ModTime.UnixNano())
	return inParent(root, h.Name, func(dir int, name string) error {
		return unix.UtimesNanoAt(dir, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// inParent calls do with the directory that has a name: os.Root does not offer everything.
func inParent(root *os.Root, name string, do func(dir int, name string) error) error {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(int(dir.Fd()), path.Base(name))
}
