package module

import (
	"io"
	"io/fs"
	"path"
	"strings"

	expsys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// maxOpen is how many files a module may have open at once.
const maxOpen = 256

// maxLinks is how many links a path may lead through, as in Linux.
const maxLinks = 40

// Tree is the files of a commit, as wazero asks for them. Links are followed within it. Everything
// that would change it fails, by what it embeds.
type Tree struct {
	expsys.UnimplementedFS
	root  *node
	nodes uint64
	blobs Blobs

	open    int
	refused Refusals
	err     error // the first failure to read an object
}

// Refusals are what the module asked for and did not get.
type Refusals struct {
	Files   bool   // more open files
	Outside string // the first path that leads out of the tree
	Memory  bool   // more memory
}

// find returns what a path names. follow is whether a link at its end is followed.
func (t *Tree) find(name string, follow bool) (*node, expsys.Errno) {
	var above []*node // directories above at
	at, links := t.root, 0
	rest := name
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			if len(above) == 0 {
				return nil, t.leadsOut(name)
			}
			at, above = above[len(above)-1], above[:len(above)-1]
			continue
		}
		if at.children == nil {
			return nil, expsys.ENOTDIR
		}
		child := at.children[part]
		if child == nil {
			return nil, expsys.ENOENT
		}
		if child.mode&fs.ModeSymlink == 0 || rest == "" && !follow {
			above, at = append(above, at), child
			continue
		}
		target, errno := t.target(child)
		if links++; errno != 0 || links > maxLinks || len(target)+len(rest) > maxPath {
			return nil, max(errno, expsys.ELOOP)
		}
		if path.IsAbs(target) {
			return nil, t.leadsOut(name)
		}
		rest = target + "/" + rest
	}
	return at, 0
}

func (t *Tree) leadsOut(name string) expsys.Errno {
	if t.refused.Outside == "" {
		t.refused.Outside = name
	}
	return expsys.EPERM
}

func (t *Tree) target(link *node) (string, expsys.Errno) {
	if link.size > maxPath {
		return "", expsys.ENAMETOOLONG
	}
	b, errno := t.content(link)
	return string(b), errno
}

// content reads a file or link. The first failure is kept, since a module may ignore it.
func (t *Tree) content(n *node) ([]byte, expsys.Errno) {
	b, err := t.blobs.read(n.blob, n.size)
	if err == nil {
		return b, 0
	}
	if t.err == nil {
		t.err = err
	}
	return nil, expsys.EIO
}

func (t *Tree) OpenFile(name string, flag expsys.Oflag, _ fs.FileMode) (expsys.File, expsys.Errno) {
	if flag&(expsys.O_WRONLY|expsys.O_RDWR|expsys.O_CREAT|expsys.O_TRUNC) != 0 {
		return nil, expsys.EROFS
	}
	n, errno := t.find(name, flag&expsys.O_NOFOLLOW == 0)
	switch {
	case errno != 0:
		return nil, errno
	case n.mode&fs.ModeSymlink != 0:
		return nil, expsys.ELOOP
	case flag&expsys.O_DIRECTORY != 0 && n.children == nil:
		return nil, expsys.ENOTDIR
	}
	// The root is opened by wazero, and stays open.
	if t.open++; t.open > maxOpen+1 {
		t.open--
		t.refused.Files = true
		return nil, expsys.EBADF // wazero has no EMFILE
	}
	return &file{tree: t, node: n}, 0
}

func (t *Tree) Lstat(name string) (sys.Stat_t, expsys.Errno) { return t.stat(name, false) }
func (t *Tree) Stat(name string) (sys.Stat_t, expsys.Errno)  { return t.stat(name, true) }

func (t *Tree) stat(name string, follow bool) (sys.Stat_t, expsys.Errno) {
	n, errno := t.find(name, follow)
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	return n.stat(), 0
}

func (n *node) stat() sys.Stat_t {
	return sys.Stat_t{Dev: 1, Ino: n.ino, Mode: n.mode, Nlink: 1, Size: n.size}
}

func (t *Tree) Readlink(name string) (string, expsys.Errno) {
	n, errno := t.find(name, false)
	if errno != 0 {
		return "", errno
	}
	if n.mode&fs.ModeSymlink == 0 {
		return "", expsys.EINVAL
	}
	return t.target(n)
}

// file is an open file or directory. at is the offset in it, in bytes or names.
type file struct {
	expsys.UnimplementedFile
	tree   *Tree
	node   *node
	bytes  []byte // once read
	loaded bool
	at     int64
}

func (f *file) Dev() (uint64, expsys.Errno)              { return 1, 0 }
func (f *file) Ino() (sys.Inode, expsys.Errno)           { return f.node.ino, 0 }
func (f *file) IsDir() (bool, expsys.Errno)              { return f.node.children != nil, 0 }
func (f *file) Stat() (sys.Stat_t, expsys.Errno)         { return f.node.stat(), 0 }
func (f *file) Write([]byte) (int, expsys.Errno)         { return 0, expsys.EBADF }
func (f *file) Pwrite([]byte, int64) (int, expsys.Errno) { return 0, expsys.EBADF }

func (f *file) Read(b []byte) (int, expsys.Errno) {
	n, errno := f.Pread(b, f.at)
	f.at += int64(n)
	return n, errno
}

func (f *file) Pread(b []byte, off int64) (int, expsys.Errno) {
	if f.node.children != nil {
		return 0, expsys.EISDIR
	}
	if off < 0 {
		return 0, expsys.EINVAL
	}
	if !f.loaded {
		content, errno := f.tree.content(f.node)
		if errno != 0 {
			return 0, errno
		}
		f.bytes, f.loaded = content, true
	}
	if off >= int64(len(f.bytes)) {
		return 0, 0
	}
	return copy(b, f.bytes[off:]), 0
}

// offset has a name, as go vet takes any Seek(int64, int) for io.Seeker's, which wazero's is not.
type offset = int64

func (f *file) Seek(offset offset, whence int) (int64, expsys.Errno) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.node.size
	case io.SeekStart:
	default:
		return 0, expsys.EINVAL
	}
	if offset < 0 || f.node.children != nil && offset != 0 {
		return 0, expsys.EINVAL
	}
	f.at = offset
	return offset, 0
}

// Readdir returns the next n entries, all that are left for n below 0.
func (f *file) Readdir(n int) ([]expsys.Dirent, expsys.Errno) {
	if f.node.children == nil {
		return nil, expsys.ENOTDIR
	}
	names := f.node.names[min(f.at, int64(len(f.node.names))):]
	if n >= 0 {
		names = names[:min(n, len(names))]
	}
	f.at += int64(len(names))
	list := make([]expsys.Dirent, len(names))
	for i, name := range names {
		child := f.node.children[name]
		list[i] = expsys.Dirent{Ino: child.ino, Name: name, Type: child.mode.Type()}
	}
	return list, 0
}

func (f *file) Close() expsys.Errno {
	f.tree.open--
	f.bytes = nil
	return 0
}
