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

func (v viewInfo) Name() string       { return v.name }
func (v viewInfo) Size() int64        { return v.size }
func (v viewInfo) ModTime() time.Time { return v.ino.ModTime }
func (v viewInfo) IsDir() bool        { return v.ino.IsDir() }
func (v viewInfo) Mode() fs.FileMode  { return goMode(v.ino.Mode) }

// Sys implements fs.FileInfo with what the library reads of it.
func (v viewInfo) Sys() any {
	st := &erofs.Stat{
		Rdev: v.ino.Device, UID: v.ino.UID, GID: v.ino.GID, Nlink: v.nlink,
		Mtime: uint64(v.ino.ModTime.Unix()), MtimeNs: uint32(v.ino.ModTime.Nanosecond()),
	}
	if len(v.ino.Xattrs) > 0 {
		st.Xattrs = make(map[string]string, len(v.ino.Xattrs))
		for name, value := range v.ino.Xattrs {
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

func (v *viewFile) Stat() (fs.FileInfo, error) { return v.info, nil }

func (v *viewFile) Read(p []byte) (int, error) {
	if v.r == nil {
		if v.info.ino.Content == nil {
			return 0, io.EOF
		}
		r, err := v.info.ino.Content.Open()
		if err != nil {
			return 0, err
		}
		v.r = r
	}
	return v.r.Read(p)
}

func (v *viewFile) Close() error {
	if v.r == nil {
		return nil
	}
	return v.r.Close()
}
