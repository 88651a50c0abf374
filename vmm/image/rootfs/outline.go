package rootfs

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Of an erofs inode and its directory entry.
const (
	// The number of blocks in the superblock; format, attributes and address in an inode; types in
	// a directory entry. relink.go explains them.
	superBlocks   = superOffset + 36
	inodeFormat   = 0
	inodeXattrs   = 2
	inodeAddress  = 16
	layoutMask    = 7 << 1
	typeRegular   = 1
	typeDirectory = 2
)

// outline gives every file a start of its own in a block. The writer puts the bytes of a small file
// right behind its inode, where they are not aligned to anything: Linux copies them when the file
// is mapped, gVisor maps the image's own pages, and a program that maps such a file (libc does so
// with its locales) is killed by SIGBUS. f is an image that was written by us and has no other use
// yet. Blocks are added at its end, and the superblock's count is mended.
func outline(f readWriterAt) error {
	o := outliner{relinker: relinker{file: f}, seen: map[uint64]bool{}}
	root, err := o.open()
	if err != nil {
		return err
	}
	var blocks [4]byte
	if _, err := f.ReadAt(blocks[:], superBlocks); err != nil {
		return err
	}
	o.next = binary.LittleEndian.Uint32(blocks[:])
	if err := o.directory(root); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(blocks[:], o.next)
	_, err = f.WriteAt(blocks[:], superBlocks)
	return err
}

// outliner walks an image; seen has the inodes that were visited, by number.
type outliner struct {
	relinker
	next uint32 // the first block behind the image
	seen map[uint64]bool
}

// directory does so below a directory, in the order of names: equal trees give equal bytes. Each
// inode is visited once, so hard links move once.
func (o *outliner) directory(nid uint64) error {
	o.seen[nid] = true
	list, err := o.readDir(nid)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		d := list[name]
		switch {
		case o.seen[d.nid]: // . and .., and further names of a file
		case d.kind == typeDirectory:
			err = o.directory(d.nid)
		case d.kind == typeRegular:
			err = o.regular(d.nid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// regular moves the bytes of one file into a block of its own, filled up with zeros, if they stand
// behind its inode.
func (o *outliner) regular(nid uint64) error {
	o.seen[nid] = true
	ino, err := o.inode(nid)
	if err != nil || ino.layout != layoutInline || ino.size == 0 {
		return err
	}
	if ino.size > blockSize {
		return fmt.Errorf("a file of %d bytes behind its inode", ino.size)
	}
	block := make([]byte, blockSize)
	if _, err := o.file.ReadAt(block[:ino.size], ino.data); err != nil {
		return err
	}
	if _, err := o.file.WriteAt(block, int64(o.next)*blockSize); err != nil {
		return err
	}
	var head [inodeAddress + 4]byte
	if _, err := o.file.ReadAt(head[:], ino.at); err != nil {
		return err
	}
	format := binary.LittleEndian.Uint16(head[inodeFormat:])
	binary.LittleEndian.PutUint16(head[inodeFormat:], format&^layoutMask)
	binary.LittleEndian.PutUint32(head[inodeAddress:], o.next)
	o.next++
	_, err = o.file.WriteAt(head[:], ino.at)
	return err
}
