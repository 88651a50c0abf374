package rootfs

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
)

// WriteTar writes the tree as a tar archive, which is a layer of a container image. Sockets are left out.
func (t *Tree) WriteTar(ctx context.Context, w io.Writer) error {
	a := archiver{ctx: ctx, out: tar.NewWriter(w), names: map[*Inode]string{}}
	return errors.Join(a.dir(t.root.Inode, ""), a.out.Close())
}

// archiver is one call of WriteTar.
type archiver struct {
	ctx   context.Context
	out   *tar.Writer
	names map[*Inode]string // the first name of each file: its others are hard links
}

func (a *archiver) dir(dir *Inode, at string) error {
	for _, name := range slices.Sorted(maps.Keys(dir.entries)) {
		ino, full := dir.entries[name].Inode, path.Join(at, name)
		if err := errors.Join(a.ctx.Err(), a.file(ino, full)); err != nil {
			return err
		}
		if ino.IsDir() {
			if err := a.dir(ino, full); err != nil {
				return err
			}
		}
	}
	return nil
}

// archiveTypes are the types of files that an archive can have.
var archiveTypes = map[uint32]byte{
	TypeRegular: tar.TypeReg, TypeDir: tar.TypeDir, TypeSymlink: tar.TypeSymlink, TypeChar: tar.TypeChar, TypeBlock: tar.TypeBlock, TypeFIFO: tar.TypeFifo,
}

func (a *archiver) file(ino *Inode, name string) error {
	h := &tar.Header{
		Typeflag: archiveTypes[ino.Type()], Name: name, Mode: int64(ino.Mode & permMask), Uid: int(ino.UID), Gid: int(ino.GID), ModTime: ino.ModTime, Format: tar.FormatPAX,
		Devmajor: int64(ino.Device >> 8 & 0xfff), Devminor: int64(ino.Device&0xff | ino.Device>>12&0xfff00), Linkname: ino.Target,
	}
	if h.Typeflag == 0 {
		return nil
	}
	first, linked := a.names[ino]
	switch {
	case ino.IsDir():
		h.Name += "/"
	case linked:
		h.Typeflag, h.Linkname = tar.TypeLink, first
	default:
		a.names[ino] = name
	}
	if h.Typeflag == tar.TypeReg {
		h.Size = ino.Size
	}
	for key, value := range ino.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords["SCHILY.xattr."+key] = value
	}
	if err := a.out.WriteHeader(h); err != nil || h.Size == 0 {
		return err
	}
	content, err := ino.Content.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(a.out, content)
	return err
}
