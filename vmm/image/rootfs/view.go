package rootfs

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	erofs "github.com/erofs/go-erofs"
)

// view is a tree as the fs.FS that the erofs library writes. Files are opened when their bytes are
// written, not when they are listed. The tree must not change meanwhile.
type view struct {
	root  *Inode
	links map[*Inode]int  // the link count of each inode, as Linux counts
	again map[string]bool // the paths of all names of an inode but the first
}

// newView visits a tree in the order in which the library does.
func newView(root *Inode) view {
	v := view{root: root, links: map[*Inode]int{root: 2}, again: map[string]bool{}}
	v.count(root, ".")
	return v
}

// count counts the links below a directory. Each subdirectory adds one to its parent, for its "..".
func (v view) count(dir *Inode, name string) {
	for _, base := range dir.Names() {
		ino, at := dir.Child(base), path.Join(name, base)
		if ino.IsDir() {
			v.links[dir]++
			v.links[ino] = 2
			v.count(ino, at)
			continue
		}
		if v.links[ino]++; v.links[ino] > 1 {
			v.again[at] = true
		}
	}
}

// find follows no links: the library asks only for names that it has listed.
func (v view) find(name string) (*Inode, error) {
	ino := v.root
	if name == "." {
		return ino, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if ino = ino.Child(part); ino == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
	}
	return ino, nil
}

func (v view) Open(name string) (fs.File, error) {
	ino, err := v.find(name)
	if err != nil {
		return nil, err
	}
	return &viewFile{info: v.info(name, ino)}, nil
}

func (v view) Stat(name string) (fs.FileInfo, error) {
	ino, err := v.find(name)
	if err != nil {
		return nil, err
	}
	return v.info(name, ino), nil
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	ino, err := v.find(name)
	if err != nil {
		return nil, err
	}
	names := ino.Names()
	list := make([]fs.DirEntry, len(names))
	for i, base := range names {
		list[i] = fs.FileInfoToDirEntry(v.info(path.Join(name, base), ino.Child(base)))
	}
	return list, nil
}

// ReadLink is an optional method for which the library looks.
func (v view) ReadLink(name string) (string, error) {
	ino, err := v.find(name)
	if err != nil {
		return "", err
	}
	return ino.Target, nil
}

// info describes a name to the library.
func (v view) info(name string, ino *Inode) viewInfo {
	size := ino.Size
	if v.again[name] {
		size = 0 // the bytes are written once; mend makes this name a hard link
	}
	return viewInfo{path.Base(name), ino, size, v.links[ino]}
}

// viewInfo implements fs.FileInfo.
type viewInfo struct {
	name  string
	ino   *Inode
	size  int64
	nlink int
}

func (i viewInfo) Name() string       { return i.name }
func (i viewInfo) Size() int64        { return i.size }
func (i viewInfo) ModTime() time.Time { return i.ino.ModTime }
func (i viewInfo) IsDir() bool        { return i.ino.IsDir() }
func (i viewInfo) Mode() fs.FileMode  { return goMode(i.ino.Mode) }

// Sys implements fs.FileInfo with what the library reads of it.
func (i viewInfo) Sys() any {
	st := &erofs.Stat{
		Rdev: i.ino.Device, UID: i.ino.UID, GID: i.ino.GID, Nlink: i.nlink,
		Mtime: uint64(i.ino.ModTime.Unix()), MtimeNs: uint32(i.ino.ModTime.Nanosecond()),
	}
	if len(i.ino.Xattrs) > 0 {
		st.Xattrs = make(map[string]string, len(i.ino.Xattrs))
		for name, value := range i.ino.Xattrs {
			if acl := aclNames[name]; acl != "" {
				name = acl
			}
			st.Xattrs[name] = value
		}
	}
	return st
}

// viewFile opens its content at the first read.
type viewFile struct {
	info viewInfo
	r    io.ReadCloser
}

func (f *viewFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *viewFile) Read(p []byte) (int, error) {
	if f.r == nil {
		if f.info.ino.Content == nil {
			return 0, io.EOF
		}
		r, err := f.info.ino.Content.Open()
		if err != nil {
			return 0, err
		}
		f.r = r
	}
	return f.r.Read(p)
}

func (f *viewFile) Close() error {
	if f.r == nil {
		return nil
	}
	return f.r.Close()
}
