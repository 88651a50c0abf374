package rootfs

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// The file types of a mode, as in inode(7) and in erofs on disk.
const (
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

// goTypes and goBits map file types, and permission bits beyond rwx, to those of package fs.
var (
	goTypes = map[uint32]fs.FileMode{
		TypeRegular: 0, TypeDir: fs.ModeDir, TypeSymlink: fs.ModeSymlink, TypeChar: fs.ModeDevice | fs.ModeCharDevice,
		TypeBlock: fs.ModeDevice, TypeFIFO: fs.ModeNamedPipe, TypeSocket: fs.ModeSocket,
	}
	goBits = map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}
)

func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode&0o777) | goTypes[mode&TypeMask]
	for bit, flag := range goBits {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

// unixMode is the reverse. A type that Linux does not have becomes 0.
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

// Inode is a file, whatever its names. Once it is in a tree, it is changed through the tree only.
type Inode struct {
	Mode    uint32 // type and permission bits, as Linux has them
	UID     uint32
	GID     uint32
	ModTime time.Time         // to the nanosecond; an image has no other time
	Device  uint32            // of a device, as Device encodes it
	Target  string            // of a symlink
	Xattrs  map[string]string // full names
	Size    int64             // of a regular file
	Content Content           // of a regular file that is not empty

	entries map[string]*entry // of a directory
}

// entry is a name in a directory. Several entries may share an Inode.
type entry struct {
	*Inode
	touched int // the last layer that changed anything at or below; whiteouts of later layers remove it
}

// Device encodes a device number as erofs and stat(2) do: 12 bits of the major number, 20 of the
// minor.
func Device(major, minor uint32) uint32 {
	return minor&0xff | (major&0xfff)<<8 | (minor&^0xff)<<12
}

// Type returns the file type, one of the constants.
func (i *Inode) Type() uint32 { return i.Mode & TypeMask }

// IsDir tells whether the inode is a directory.
func (i *Inode) IsDir() bool { return i.Type() == TypeDir }

// Names returns the names in a directory, sorted by their bytes.
func (i *Inode) Names() []string { return slices.Sorted(maps.Keys(i.entries)) }

// Child returns the inode of a name in a directory. It is nil if there is none, and for an inode
// that is no directory.
func (i *Inode) Child(name string) *Inode {
	if e := i.entries[name]; e != nil {
		return e.Inode
	}
	return nil
}

func newDir(mode uint32, t time.Time) *Inode {
	return &Inode{Mode: TypeDir | mode, ModTime: t, entries: map[string]*entry{}}
}
