package rootfs

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	erofs "github.com/erofs/go-erofs"

	"agentbox/agentbox"
)

// Read makes a tree from an erofs image, the root's own attributes included. The contents of files
// stay in r, which must live as long as the tree. Everything counts against limits. An unreadable
// image is code Corrupt.
func Read(ctx context.Context, r io.ReaderAt, limits Limits, epoch time.Time) (*Tree, error) {
	img, err := erofs.Open(r)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "not a readable erofs image: %w", err)
	}
	rd := reader{ctx: ctx, r: r, img: img, tree: New(limits, epoch), seen: map[int64]*Inode{}}
	info, err := fs.Stat(img, ".")
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "not a readable erofs image: %w", err)
	}
	root, err := rd.inode(".", info)
	if err != nil {
		return nil, err
	}
	rd.tree.root.Inode = root
	if err := rd.dir(root, "."); err != nil {
		return nil, err
	}
	return rd.tree, nil
}

// reader is one call of Read.
type reader struct {
	ctx  context.Context
	r    io.ReaderAt
	img  fs.FS
	tree *Tree
	seen map[int64]*Inode // inodes with more than one name
}

// dir reads a directory with all below it, as layer 0, so later layers can remove from it.
func (rd *reader) dir(dir *Inode, name string) error {
	if err := rd.ctx.Err(); err != nil {
		return err
	}
	list, err := fs.ReadDir(rd.img, name)
	if err != nil {
		return agentbox.Errorf(agentbox.Corrupt, "read %q of the image: %w", name, err)
	}
	for _, d := range list {
		at := path.Join(name, d.Name())
		if len(at) > maxPath { // the directory contains itself
			return agentbox.Errorf(agentbox.Corrupt, "image has an impossibly long path at %.80q", at)
		}
		info, err := d.Info()
		if err != nil {
			return agentbox.Errorf(agentbox.Corrupt, "read %q of the image: %w", at, err)
		}
		ino, err := rd.inode(at, info)
		if err != nil {
			return err
		}
		dir.entries[d.Name()] = &entry{Inode: ino}
		if ino.IsDir() {
			if err := rd.dir(ino, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// inode reads the description of one file. All names of a hard link share one Inode.
func (rd *reader) inode(name string, info fs.FileInfo) (*Inode, error) {
	st, ok := info.Sys().(*erofs.Stat)
	if !ok {
		return nil, fmt.Errorf("read %q of the image: no metadata", name)
	}
	if ino := rd.seen[st.Ino]; ino != nil { // a hard link
		return ino, rd.tree.account(name, &Inode{})
	}
	ino := &Inode{
		Mode: unixMode(st.Mode), UID: st.UID, GID: st.GID,
		ModTime: time.Unix(int64(st.Mtime), int64(st.MtimeNs)), Xattrs: plainXattrs(st.Xattrs),
	}
	switch ino.Type() {
	case TypeDir:
		ino.entries = map[string]*entry{}
	case TypeRegular:
		content, err := rd.content(name, info)
		if err != nil {
			return nil, err
		}
		ino.Size, ino.Content = info.Size(), content
	case TypeSymlink:
		target, err := fs.ReadLink(rd.img, name)
		if err != nil {
			return nil, agentbox.Errorf(agentbox.Corrupt, "read symlink %q of the image: %w", name, err)
		}
		ino.Target = target
	case TypeChar, TypeBlock:
		ino.Device = st.Rdev
	case 0:
		return nil, agentbox.Errorf(agentbox.Corrupt, "image has %.80q of an unknown type", name)
	}
	if st.Nlink > 1 && !ino.IsDir() {
		rd.seen[st.Ino] = ino
	}
	return ino, rd.tree.account(name, ino)
}

// content finds the bytes of a file. In our images every file is in one piece.
func (rd *reader) content(name string, info fs.FileInfo) (Content, error) {
	if info.Size() == 0 {
		return nil, nil
	}
	if located, ok := info.(interface{ DataRange() []erofs.DataRange }); ok {
		if at := located.DataRange(); len(at) == 1 && at[0].Device == 0 && at[0].Offset >= 0 && at[0].Size == info.Size() {
			return Section{rd.r, at[0].Offset, at[0].Size}, nil
		}
	}
	return nil, agentbox.Errorf(agentbox.Corrupt, "the bytes of %.80q of the image are not in one piece", name)
}

// plainXattrs undoes the renaming of access lists (see aclNames).
func plainXattrs(attrs map[string]string) map[string]string {
	for plain, stored := range aclNames {
		if v, ok := attrs[stored]; ok {
			delete(attrs, stored)
			attrs[plain] = v
		}
	}
	return attrs
}
