package rootfs

import (
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"
)

// Offsets and sizes of the erofs format that relink needs; see "On-disk details" in the kernel's
// documentation of erofs.
const (
	// The superblock begins after 1024 bytes. Of its fields we need the root directory's number (2
	// bytes), how many inodes there are (8), and the block in which the metadata begin (4).
	//
	// A nid, the number of an inode, counts slots of 32 bytes from there. An inode has 32 bytes or,
	// extended, 64: its format in the first 2 (bit 0 extended, bits 1 to 3 the layout of its data),
	// the number of 4-byte units of its extended attributes, and from byte 8 on its size in 4 or 8
	// bytes. At byte 16 stands the block in which its data begin, for the plain layout; with the
	// inline layout the data of a small file follow the attributes, which follow the inode.
	//
	// A directory's data are blocks of entries of 12 bytes: nid (8), where its name begins in the
	// block (2), the type (1), and one byte of nothing.
	superOffset   = 1024
	superRootNid  = superOffset + 14
	superInodes   = superOffset + 16
	superMetaAddr = superOffset + 40
	slotSize      = 32 // a nid counts these from the start of the metadata
	direntSize    = 12
	xattrHeader   = 12
	blockSize     = 4096
	layoutPlain   = 0
	layoutInline  = 2
)

// readWriterAt is a file that is read and written in place.
type readWriterAt interface {
	io.ReaderAt
	io.WriterAt
}

// relinker turns separate inodes of an image that was just written into names of one inode.
// Directories are read once, by path (dirs); meta is where the metadata begin in the file.
type relinker struct {
	file readWriterAt
	meta int64
	dirs map[string]map[string]dirent
}

// dirent is an entry of a directory on disk: the number of its inode, and its type.
type dirent struct {
	nid    uint64
	offset int64 // of the entry in the file
	kind   byte
}

// relink points every name of l.again to the inode of its first name. The inodes that lose their
// only name are not counted any more and stay as unused bytes, the same in every build.
func relink(f readWriterAt, l links) error {
	if len(l.order) == 0 {
		return nil
	}
	r := &relinker{file: f, dirs: map[string]map[string]dirent{}}
	root, err := r.open()
	if err != nil {
		return err
	}
	var nid [8]byte
	for _, name := range l.order {
		// Both names were just written, so either missing is an error of the writer's.
		to, err := r.find(root, l.again[name])
		if err != nil {
			return err
		}
		from, err := r.find(root, name)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(nid[:], to.nid)
		if _, err := f.WriteAt(nid[:], from.offset); err != nil {
			return err
		}
	}
	if _, err := f.ReadAt(nid[:], superInodes); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(nid[:], binary.LittleEndian.Uint64(nid[:])-uint64(len(l.order)))
	_, err = f.WriteAt(nid[:], superInodes)
	return err
}

// open finds the metadata, and gives the root directory. An inode's number (nid) counts from the
// metadata's start.
func (r *relinker) open() (root uint64, err error) {
	var super [64]byte
	if _, err := r.file.ReadAt(super[:], superOffset); err != nil {
		return 0, err
	}
	r.meta = int64(binary.LittleEndian.Uint32(super[superMetaAddr-superOffset:])) * blockSize
	return uint64(binary.LittleEndian.Uint16(super[superRootNid-superOffset:])), nil
}

// find looks a path up from the root, "/" between its names.
func (r *relinker) find(root uint64, name string) (dirent, error) {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	list, ok := r.dirs[dir]
	if !ok {
		nid := root
		if dir != "" {
			parent, err := r.find(root, dir)
			if err != nil {
				return dirent{}, err
			}
			nid = parent.nid
		}
		var err error
		if list, err = r.readDir(nid); err != nil {
			return dirent{}, fmt.Errorf("read directory %q of the new image: %w", dir, err)
		}
		r.dirs[dir] = list
	}
	d, ok := list[base]
	if !ok {
		return d, fmt.Errorf("the new image lacks %q", name)
	}
	return d, nil
}

// inode is what of an inode says where its bytes are.
type inode struct {
	at     int64 // of the inode in the file
	size   int64
	layout int
	data   int64 // where the bytes are in the file
}

// inode reads what relink and outline need. Layouts other than the two that our writer makes are an
// error.
func (r *relinker) inode(nid uint64) (inode, error) {
	var b [64]byte
	ino := inode{at: r.meta + int64(nid)*slotSize}
	if _, err := r.file.ReadAt(b[:slotSize], ino.at); err != nil {
		return ino, err
	}
	// Bit 0 of the format tells the extended inode of 64 bytes from the compact one of 32.
	format, header := binary.LittleEndian.Uint16(b[inodeFormat:]), int64(32)
	ino.size = int64(binary.LittleEndian.Uint32(b[8:]))
	if format&1 != 0 {
		header, ino.size = 64, int64(binary.LittleEndian.Uint64(b[8:]))
	}
	ino.layout = int((format & layoutMask) >> 1)
	switch ino.layout {
	case layoutPlain:
		ino.data = int64(binary.LittleEndian.Uint32(b[inodeAddress:])) * blockSize
	case layoutInline:
		ino.data = ino.at + header
		if n := int64(binary.LittleEndian.Uint16(b[inodeXattrs:])); n > 0 {
			ino.data += xattrHeader + (n-1)*4
		}
	default:
		return ino, fmt.Errorf("unexpected data layout %d", ino.layout)
	}
	return ino, nil
}

// readDir reads a directory inode and its entries. It reads block by block, since each block is a
// list of its own.
func (r *relinker) readDir(nid uint64) (map[string]dirent, error) {
	ino, err := r.inode(nid)
	if err != nil {
		return nil, err
	}
	list := map[string]dirent{}
	for done := int64(0); done < ino.size; done += blockSize {
		block := make([]byte, min(blockSize, ino.size-done))
		if _, err := r.file.ReadAt(block, ino.data+done); err != nil {
			return nil, err
		}
		if err := parseDirents(block, ino.data+done, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parseDirents reads one block of a directory, which lies at offset in the file. A block begins
// with its entries, behind which their names stand; each name ends where the next begins, the last
// at a NUL or the block's end.
func parseDirents(block []byte, offset int64, list map[string]dirent) error {
	if len(block) < direntSize {
		return fmt.Errorf("directory block of %d bytes", len(block))
	}
	names := int(binary.LittleEndian.Uint16(block[8:]))
	if names < direntSize || names > len(block) {
		return fmt.Errorf("directory block with names at %d of %d", names, len(block))
	}
	for i := 0; i+direntSize <= names; i += direntSize {
		start, end := int(binary.LittleEndian.Uint16(block[i+8:])), len(block)
		if i+2*direntSize <= names {
			end = int(binary.LittleEndian.Uint16(block[i+direntSize+8:]))
		}
		if start < names || start > end || end > len(block) {
			return fmt.Errorf("directory entry with a name from %d to %d", start, end)
		}
		name := strings.TrimRight(string(block[start:end]), "\x00")
		list[name] = dirent{binary.LittleEndian.Uint64(block[i:]), offset + int64(i), block[i+10]}
	}
	return nil
}
