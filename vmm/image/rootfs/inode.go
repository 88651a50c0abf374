package rootfs

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// The file types of a mode, as Linux has them.
const (
	// From stat(2); erofs has the same on disk.
	TypeMask    = 0o170000
	TypeSocket  = 0o140000
	TypeSymlink = 0o120000
	TypeRegular = 0o100000
	TypeBlock   = 0o060000
	TypeDir     = 0o040000
	TypeChar    = 0o020000
	TypeFIFO    = 0o010000
	permMask    = 0o007777
)

// goTypes and goBits are types and permission bits beyond those of reading, writing and executing, as
// package fs has them.
var (
	goTypes = map[uint32]fs.FileMode{
		TypeRegular: 0, TypeDir: fs.ModeDir, TypeSymlink: fs.ModeSymlink, TypeChar: fs.ModeDevice | fs.ModeCharDevice,
		TypeBlock: fs.ModeDevice, TypeFIFO: fs.ModeNamedPipe, TypeSocket: fs.ModeSocket,
	}
	goBits = map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}
)

// goMode is a mode of Linux's as Go has it.
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode&0o777) | goTypes[mode&TypeMask]
	for bit, flag := range goBits {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// unixMode is the reverse. What is of no type that Linux has gets none.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for typ, flag := range goTypes {
		if m.Type() == flag {
			mode |= typ
		}
	}
	for bit, flag := range goBits {
		if m&flag != 0 {
			mode |= bit
		}
	}
	return mode
}

// Content is the bytes of a regular file. Open may be called more than once and gives the same
// bytes each time, or an error.
type Content interface {
	Open() (io.ReadCloser, error)
}

// Inode is one file, whatever its names. One that was put into a tree is changed through the tree
// only.
type Inode struct {
	Mode uint32 // type and permission bits, as Linux has them
	UID  uint32
	GID  uint32
	// To the nanosecond; there is no other time in an image.
	ModTime time.Time
	Device  uint32            // of a device, as Device encodes it
	Target  string            // of a symlink
	Xattrs  map[string]string // full names
	Size    int64             // of a regular file
	Content Content           // of a regular file that is not empty

	entries map[string]*entry // of a directory
}

// entry is a name in a directory. Its layer tells whether an opaque marker or a whiteout may remove
// it. Several entries may have one Inode, and each has its own layer.
type entry struct {
	*Inode
	touched int // the layer that last changed anything at or below
}

// Device encodes a device number as Linux does on disk. It is the format of erofs and stat: 12 bits
// of the major, 20 of the minor number.
func Device(major, minor uint32) uint32 {
	return minor&0xff | (major&0xfff)<<8 | (minor&^0xff)<<12
}

// Type is the file type.
func (i *Inode) Type() uint32 { return i.Mode & TypeMask }

// IsDir tells whether the inode is a directory.
func (i *Inode) IsDir() bool { return i.Type() == TypeDir }

// Names are the names in a directory, sorted by their bytes.
func (i *Inode) Names() []string { return slices.Sorted(maps.Keys(i.entries)) }

// Child is what a directory has under that name, or nil. It is nil for what is no directory, too.
func (i *Inode) Child(name string) *Inode {
	if e := i.entries[name]; e != nil {
		return e.Inode
	}
	return nil
}

// newDir is an empty directory of root's.
func newDir(mode uint32, t time.Time) *Inode {
	return &Inode{Mode: TypeDir | mode, ModTime: t, entries: map[string]*entry{}}
}
