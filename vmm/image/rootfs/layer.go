package rootfs

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"agentbox/agentbox"
)

// xattrRecord is how tar names a PAX record that is an extended attribute.
const xattrRecord = "SCHILY.xattr."

// ApplyTar applies one layer, an uncompressed tar archive, as the OCI image specification defines
// it. The contents of files go to spool, which must live as long as the tree. Names that would
// leave the root are refused. After an error a part of the layer is in the tree, which is of no use
// then. ApplyTar reads r to the end of the archive and not beyond.
func (t *Tree) ApplyTar(ctx context.Context, r io.Reader, spool *Spool) error {
	t.NextLayer()
	tr := tar.NewReader(WithContext(ctx, r))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return readError(err)
		}
		if err := t.applyEntry(h, tr, spool); err != nil {
			return err
		}
	}
}

// WithContext returns a reader of r whose reads fail when ctx has ended: one file of a layer can
// have as many bytes as a whole image.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// readError gives the errors of a broken archive the code Corrupt, and returns those of the stream
// under it as they are.
func readError(err error) error {
	var known *agentbox.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasPrefix(err.Error(), "archive/tar") {
		return agentbox.Errorf(agentbox.Corrupt, "layer is not a complete tar archive: %w", err)
	}
	return err
}

// applyEntry applies one entry: a whiteout, a hard link or a file. It counts the bytes of a file
// before it spools them, so that a layer cannot fill the disk first.
func (t *Tree) applyEntry(h *tar.Header, r io.Reader, spool *Spool) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if done, err := t.whiteout(h.Name); done || err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		return t.Link(h.Name, h.Linkname)
	}
	ino, err := t.inodeOf(h)
	if err != nil {
		return err
	}
	if ino.Size > 0 {
		if ino.Size > t.limits.Bytes-t.bytes { // before the bytes are written anywhere
			return t.account(h.Name, ino)
		}
		if ino.Content, err = spool.Add(r, ino.Size); err != nil {
			return readError(err)
		}
	}
	return t.Put(h.Name, ino)
}

// tarTypes are the types of files in a layer. Hard links and global headers: elsewhere.
var tarTypes = map[byte]uint32{
	tar.TypeReg: TypeRegular, tar.TypeCont: TypeRegular, tar.TypeGNUSparse: TypeRegular, tar.TypeDir: TypeDir,
	tar.TypeSymlink: TypeSymlink, tar.TypeChar: TypeChar, tar.TypeBlock: TypeBlock, tar.TypeFifo: TypeFIFO,
}

// inodeOf translates a header, with its times: a layer is named by its bytes.
func (t *Tree) inodeOf(h *tar.Header) (*Inode, error) {
	typ, ok := tarTypes[h.Typeflag]
	if !ok {
		return nil, agentbox.Errorf(agentbox.Corrupt, "layer has %.80q of the unknown type %q", h.Name, h.Typeflag)
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid >= math.MaxUint32 || h.Gid >= math.MaxUint32 {
		return nil, agentbox.Errorf(agentbox.Corrupt, "layer has %.80q with the impossible owner %d:%d", h.Name, h.Uid, h.Gid)
	}
	ino := &Inode{
		Mode:    typ | uint32(h.Mode)&permMask,
		UID:     uint32(h.Uid),
		GID:     uint32(h.Gid),
		ModTime: storable(h.ModTime),
		Xattrs:  xattrsOf(h),
	}
	switch typ {
	case TypeRegular:
		ino.Size = h.Size
	// The target may be anything: it is followed within the tree, here and in the box.
	case TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer has the symlink %.80q with an impossible target", h.Name)
		}
		ino.Mode |= 0o777
		ino.Target = h.Linkname
	case TypeChar, TypeBlock:
		if h.Devmajor < 0 || h.Devmajor > 0xfff || h.Devminor < 0 || h.Devminor > 0xfffff {
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer has %.80q with an impossible device number", h.Name)
		}
		ino.Device = Device(uint32(h.Devmajor), uint32(h.Devminor))
	}
	return ino, nil
}

// xattrsOf returns the extended attributes that an image keeps, nil for none.
func xattrsOf(h *tar.Header) map[string]string {
	var attrs map[string]string
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, xattrRecord); ok && keepXattr(name) {
			if attrs == nil {
				attrs = map[string]string{}
			}
			attrs[name] = value
		}
	}
	return attrs
}

// storable clamps a time to what every reader of the format understands, from 1970 to 9999.
func storable(t time.Time) time.Time {
	last := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(time.Unix(0, 0)):
		return time.Unix(0, 0)
	case t.After(last):
		return last
	}
	return t
}
