package rootfs

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// Offsets and sizes of the erofs format that mend needs; see "On-disk details" in the kernel's
// documentation of erofs.
const (
	// The superblock begins after 1024 bytes. Of its fields we need the root directory's number (2
	// bytes), how many inodes there are (8), how many blocks (4), and the block in which the
	// metadata begin (4).
	superOffset   = 1024
	superSize     = 64
	superRootNid  = 14
	superInodes   = 16
	superBlocks   = 36
	superMetaAddr = 40
	blockSize     = 4096

	// A nid, the number of an inode, counts slots of 32 bytes from the start of the metadata. An
	// inode has 32 bytes or, extended, 64: its format in the first 2 (bit 0 extended, bits 1 to 3
	// the layout of its data), the number of 4-byte units of its extended attributes, and from byte
	// 8 on its size in 4 or 8 bytes. At byte 16 stands the block in which its data begin, for the
	// plain layout; with the inline layout the data of a small file follow the attributes, which
	// follow the inode.
	slotSize     = 32
	inodeXattrs  = 2
	inodeSize    = 8
	inodeAddress = 16
	xattrHeader  = 12
	layoutMask   = 7 << 1
	layoutPlain  = 0 << 1
	layoutInline = 2 << 1

	// A directory's data are blocks of entries of 12 bytes: nid (8), where its name begins in the
	// block (2), the type (1), and one byte of nothing.
	direntSize = 12
)

// mender puts into an image that was just written what its writer does not know: hard links, and
// small files that can be mapped. It walks the image beside the tree that it was written from.
type mender struct {
	file   *os.File
	super  [superSize]byte
	blocks uint32            // of the image so far
	first  map[*Inode]uint64 // the number in the image of each file that was met
	again  uint64            // how many further names of them were met
}

// mend does both. The inodes that lose their only name are not counted any more and stay as unused
// bytes, the same in every build; blocks are added at the end. f has no other use yet.
func mend(f *os.File, root *Inode) error {
	m := &mender{file: f, first: map[*Inode]uint64{}}
	nid, err := m.open()
	if err != nil {
		return err
	}
	if err := m.directory(root, nid); err != nil {
		return err
	}
	inodes := binary.LittleEndian.Uint64(m.super[superInodes:])
	binary.LittleEndian.PutUint64(m.super[superInodes:], inodes-m.again)
	binary.LittleEndian.PutUint32(m.super[superBlocks:], m.blocks)
	_, err = f.WriteAt(m.super[:], superOffset)
	return err
}

// open reads the superblock, and gives the number of the root directory.
func (m *mender) open() (root uint64, err error) {
	_, err = m.file.ReadAt(m.super[:], superOffset)
	m.blocks = binary.LittleEndian.Uint32(m.super[superBlocks:])
	return uint64(binary.LittleEndian.Uint16(m.super[superRootNid:])), err
}

// directory mends a directory and all below it, in the order of names: equal trees give equal
// bytes.
func (m *mender) directory(dir *Inode, nid uint64) error {
	list, err := m.readDir(nid)
	if err != nil {
		return err
	}
	for _, name := range dir.Names() {
		d, ok := list[name]
		if !ok {
			return fmt.Errorf("the new image lacks %q", name)
		}
		if err := m.entry(dir.Child(name), d); err != nil {
			return fmt.Errorf("%.80q: %w", name, err)
		}
	}
	return nil
}

// entry mends what one name stands for. The writer has made an empty file of every further name of
// an inode, and the name is pointed to the first one's inode here.
func (m *mender) entry(ino *Inode, d dirent) error {
	if ino.IsDir() {
		return m.directory(ino, d.nid)
	}
	if first, ok := m.first[ino]; ok {
		m.again++
		_, err := m.file.WriteAt(binary.LittleEndian.AppendUint64(nil, first), d.offset)
		return err
	}
	m.first[ino] = d.nid
	if ino.Type() != TypeRegular {
		return nil
	}
	return m.outline(d.nid)
}

// outline moves the bytes of one file into a block of its own, filled up with zeros, if they stand
// behind its inode. The writer puts those of a small file there, where they are not aligned to
// anything: Linux copies them when the file is mapped, gVisor maps the image's own pages, and a
// program that maps such a file (libc does so with its locales) is killed by SIGBUS.
func (m *mender) outline(nid uint64) error {
	ino, err := m.inode(nid)
	if err != nil || ino.layout != layoutInline || ino.size == 0 {
		return err
	}
	if ino.size > blockSize {
		return fmt.Errorf("a file of %d bytes behind its inode", ino.size)
	}
	block := make([]byte, blockSize)
	if _, err := m.file.ReadAt(block[:ino.size], ino.data); err != nil {
		return err
	}
	if _, err := m.file.WriteAt(block, int64(m.blocks)*blockSize); err != nil {
		return err
	}
	var head [inodeAddress + 4]byte
	if _, err := m.file.ReadAt(head[:], ino.at); err != nil {
		return err
	}
	format := binary.LittleEndian.Uint16(head[:])
	binary.LittleEndian.PutUint16(head[:], format&^layoutMask|layoutPlain)
	binary.LittleEndian.PutUint32(head[inodeAddress:], m.blocks)
	m.blocks++
	_, err = m.file.WriteAt(head[:], ino.at)
	return err
}

// inode is what of an inode says where its bytes are.
type inode struct {
	at     int64 // of the inode in the file
	size   int64
	layout uint16
	data   int64 // where the bytes are in the file
}

// inode reads what mend needs. Layouts other than the two that our writer makes are an error.
func (m *mender) inode(nid uint64) (inode, error) {
	meta := int64(binary.LittleEndian.Uint32(m.super[superMetaAddr:])) * blockSize
	ino := inode{at: meta + int64(nid)*slotSize}
	var b [slotSize]byte
	if _, err := m.file.ReadAt(b[:], ino.at); err != nil {
		return ino, err
	}
	// Bit 0 of the format tells the extended inode of 64 bytes from the compact one of 32.
	format, header := binary.LittleEndian.Uint16(b[:]), int64(32)
	ino.size = int64(binary.LittleEndian.Uint32(b[inodeSize:]))
	if format&1 != 0 {
		header, ino.size = 64, int64(binary.LittleEndian.Uint64(b[inodeSize:]))
	}
	switch ino.layout = format & layoutMask; ino.layout {
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

// dirent is an entry of a directory on disk: the number of its inode, and where the entry is in the
// file.
type dirent struct {
	nid    uint64
	offset int64
}

// readDir reads a directory inode and its entries. It reads block by block, since each block is a
// list of its own.
func (m *mender) readDir(nid uint64) (map[string]dirent, error) {
	ino, err := m.inode(nid)
	if err != nil {
		return nil, err
	}
	list := map[string]dirent{}
	for done := int64(0); done < ino.size; done += blockSize {
		block := make([]byte, min(blockSize, ino.size-done))
		if _, err := m.file.ReadAt(block, ino.data+done); err != nil {
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
		list[name] = dirent{binary.LittleEndian.Uint64(block[i:]), offset + int64(i)}
	}
	return nil
}
