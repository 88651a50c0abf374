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
	// The superblock begins after 1024 bytes. Of its fields mend needs the number of the root
	// directory (2 bytes), of inodes (8), of blocks (4), and the block in which the metadata begin
	// (4).
	superOffset   = 1024
	superSize     = 64
	superRootNid  = 14
	superInodes   = 16
	superBlocks   = 36
	superMetaAddr = 40
	blockSize     = 4096

	// The number of an inode (nid) counts slots of 32 bytes from the start of the metadata. An
	// inode has 32 bytes, or 64 if it is extended. It begins with its format (2 bytes: bit 0 says
	// extended, bits 1 to 3 are the layout of its data) and the number of 4-byte units of its
	// extended attributes (2). From byte 8 on it has its size (4 bytes, or 8 if it is extended). In
	// the plain layout byte 16 has the block in which the data begin; in the inline layout the data
	// follow the attributes, which follow the inode.
	slotSize     = 32
	inodeXattrs  = 2
	inodeSize    = 8
	inodeAddress = 16
	xattrHeader  = 12
	layoutMask   = 7 << 1
	layoutPlain  = 0 << 1
	layoutInline = 2 << 1

	// The data of a directory are blocks of entries of 12 bytes: nid (8), the offset of the name in
	// the block (2), type (1), unused (1).
	direntSize = 12
)

// patcher adds to a new image what the erofs library cannot write: hard links, and small files that
// can be mapped. It walks the image side by side with the tree from which it was written.
type patcher struct {
	file   *os.File
	super  [superSize]byte
	blocks uint32            // of the image so far
	first  map[*Inode]uint64 // the nid of the first name of each file
	again  uint64            // how many further names there are
}

// patch does both. Inodes that lose their only name are no longer counted and stay as unused bytes,
// the same in every build. Blocks are added at the end. Nobody else may use f meanwhile.
func patch(f *os.File, root *Inode) error {
	m := &patcher{file: f, first: map[*Inode]uint64{}}
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

func (p *patcher) open() (root uint64, err error) {
	_, err = p.file.ReadAt(p.super[:], superOffset)
	p.blocks = binary.LittleEndian.Uint32(p.super[superBlocks:])
	return uint64(binary.LittleEndian.Uint16(p.super[superRootNid:])), err
}

// directory mends a directory and everything below it, in the order of names, so that equal trees
// give equal bytes.
func (p *patcher) directory(dir *Inode, nid uint64) error {
	list, err := p.readDir(nid)
	if err != nil {
		return err
	}
	for _, name := range dir.Names() {
		d, ok := list[name]
		if !ok {
			return fmt.Errorf("the new image lacks %q", name)
		}
		if err := p.entry(dir.Child(name), d); err != nil {
			return fmt.Errorf("%.80q: %w", name, err)
		}
	}
	return nil
}

// entry mends one name. The library has made an empty file for every further name of an inode; here
// the name gets the nid of the first one.
func (p *patcher) entry(ino *Inode, d dirent) error {
	if ino.IsDir() {
		return p.directory(ino, d.nid)
	}
	if first, ok := p.first[ino]; ok {
		p.again++
		_, err := p.file.WriteAt(binary.LittleEndian.AppendUint64(nil, first), d.offset)
		return err
	}
	p.first[ino] = d.nid
	if ino.Type() != TypeRegular {
		return nil
	}
	return p.outline(d.nid)
}

// outline moves the bytes of a small file, which the library puts right after the inode, into a
// block of their own. They have to be aligned to a page: Linux copies them when the file is mapped,
// but gVisor maps the image's own pages, and SIGBUS kills a program that maps such a file, as libc
// does with its locales.
func (p *patcher) outline(nid uint64) error {
	ino, err := p.inode(nid)
	if err != nil || ino.layout != layoutInline || ino.size == 0 {
		return err
	}
	if ino.size > blockSize {
		return fmt.Errorf("a file of %d bytes behind its inode", ino.size)
	}
	block := make([]byte, blockSize)
	if _, err := p.file.ReadAt(block[:ino.size], ino.data); err != nil {
		return err
	}
	if _, err := p.file.WriteAt(block, int64(p.blocks)*blockSize); err != nil {
		return err
	}
	var head [inodeAddress + 4]byte
	if _, err := p.file.ReadAt(head[:], ino.at); err != nil {
		return err
	}
	format := binary.LittleEndian.Uint16(head[:])
	binary.LittleEndian.PutUint16(head[:], format&^layoutMask|layoutPlain)
	binary.LittleEndian.PutUint32(head[inodeAddress:], p.blocks)
	p.blocks++
	_, err = p.file.WriteAt(head[:], ino.at)
	return err
}

// inode says where an inode and its bytes are. Offsets are of the image file.
type inode struct {
	at     int64 // the offset of the inode
	size   int64
	layout uint16
	data   int64 // the offset of the bytes
}

// inode reads an inode. Layouts other than the two that the library writes are an error.
func (p *patcher) inode(nid uint64) (inode, error) {
	meta := int64(binary.LittleEndian.Uint32(p.super[superMetaAddr:])) * blockSize
	ino := inode{at: meta + int64(nid)*slotSize}
	var b [slotSize]byte
	if _, err := p.file.ReadAt(b[:], ino.at); err != nil {
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

// dirent is an entry of a directory on disk, which is at offset in the image file.
type dirent struct {
	nid    uint64
	offset int64
}

// readDir reads the entries of a directory, block by block: each block is a list of its own.
func (p *patcher) readDir(nid uint64) (map[string]dirent, error) {
	ino, err := p.inode(nid)
	if err != nil {
		return nil, err
	}
	list := map[string]dirent{}
	for done := int64(0); done < ino.size; done += blockSize {
		block := make([]byte, min(blockSize, ino.size-done))
		if _, err := p.file.ReadAt(block, ino.data+done); err != nil {
			return nil, err
		}
		if err := parseDirents(block, ino.data+done, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parseDirents adds the entries of one block of a directory to list. The block is at offset in the
// image file. Its entries come first and their names after them. Each name ends where the next one
// begins, the last at a NUL or at the end of the block.
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
