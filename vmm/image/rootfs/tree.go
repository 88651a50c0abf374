package rootfs

import (
	"path"
	"strings"
	"time"

	"agentbox/agentbox"
)

// Limits bound what layers may ask for, so that a small download cannot fill a disk or the memory.
// What a later layer replaces or removes still counts: it was unpacked.
type Limits struct {
	Bytes  int64 // of all regular files of all layers together
	Inodes int   // of all layers together; each name of a hard link counts
	Memory int64 // bytes of names, targets of symlinks and extended attributes
}

// DefaultLimits are far above any image that people build and far below what hurts a machine.
var DefaultLimits = Limits{Bytes: 64 << 30, Inodes: 4 << 20, Memory: 1 << 30}

// Bounds of names, as Linux has them, and of symlinks followed in one path.
const (
	maxName  = 255
	maxPath  = 4095
	maxLinks = 40
)

// Tree is a root file system. It is not safe for concurrent use.
type Tree struct {
	root   *entry
	layer  int       // counts up with NextLayer
	epoch  time.Time // the time of directories that no layer describes
	limits Limits
	// What was accounted for so far, against the limits.
	bytes, memory int64
	inodes        int
}

// New makes a tree with an empty root directory. Directories that layers imply but never describe
// get the time epoch. Layers count from 0: an entry made before the first NextLayer is below all of
// them.
func New(limits Limits, epoch time.Time) *Tree {
	return &Tree{root: &entry{Inode: newDir(0o755, epoch)}, limits: limits, epoch: epoch}
}

// Limits returns the bounds that New was given.
func (t *Tree) Limits() Limits { return t.limits }

// Root is the root directory.
func (t *Tree) Root() *Inode { return t.root.Inode }

// NextLayer ends a layer: later whiteouts remove what is in the tree now.
func (t *Tree) NextLayer() { t.layer++ }

// Lookup returns the inode of a path, or nil. It follows symlinks within the tree; the last
// component only if follow is set. Impossible paths and circles of links are nil, too.
func (t *Tree) Lookup(name string, follow bool) *Inode {
	if !follow {
		parent, base, err := t.parent(name, false)
		if err != nil || parent == nil {
			return nil
		}
		if base == "" {
			return parent.Inode
		}
		return parent.Child(base)
	}
	e, err := t.walk(name, false)
	if err != nil || e == nil {
		return nil
	}
	return e.Inode
}

// Put makes name refer to the inode and replaces what was there. A directory that replaces a
// directory keeps its entries. Put makes missing parents, and follows symlinks on the way within
// the tree. The inode belongs to the tree from then on.
func (t *Tree) Put(name string, ino *Inode) error {
	if err := t.account(name, ino); err != nil {
		return err
	}
	parent, base, err := t.parent(name, true)
	if err != nil {
		return err
	}
	if ino.IsDir() && ino.entries == nil {
		ino.entries = map[string]*entry{}
	}
	if base == "" {
		return t.putRoot(name, ino)
	}
	// A layer that has a directory again changes its attributes and adds to it.
	if old := parent.entries[base]; old != nil && old.IsDir() && ino.IsDir() {
		ino.entries = old.entries
	}
	parent.entries[base] = &entry{Inode: ino, touched: t.layer}
	return nil
}

func (t *Tree) putRoot(name string, ino *Inode) error {
	if !ino.IsDir() {
		return agentbox.Errorf(agentbox.Corrupt, "layer replaces the root directory by something else (%q)", name)
	}
	ino.entries = t.root.entries
	t.root.Inode = ino
	return nil
}

// Link makes name another name of target, which must exist and not be a directory. It counts as a
// file, or a small layer could make names without end.
func (t *Tree) Link(name, target string) error {
	if err := t.account(name, &Inode{}); err != nil {
		return err
	}
	ino := t.Lookup(target, false)
	if ino == nil {
		return agentbox.Errorf(agentbox.Corrupt, "layer has a hard link %q to %q, which does not exist", name, target)
	}
	if ino.IsDir() {
		return agentbox.Errorf(agentbox.Corrupt, "layer has a hard link %q to %q, which is a directory", name, target)
	}
	parent, base, err := t.parent(name, true)
	if err != nil {
		return err
	}
	if base == "" {
		return t.putRoot(name, ino)
	}
	parent.entries[base] = &entry{Inode: ino, touched: t.layer}
	return nil
}

// Graft puts the root of another tree at a directory, in place of what was there. Both trees share
// its inodes from then on. The other's files count against the limits.
func (t *Tree) Graft(name string, other *Tree) error {
	t.bytes, t.memory, t.inodes = t.bytes+other.bytes, t.memory+other.memory, t.inodes+other.inodes
	if err := t.Remove(name); err != nil {
		return err
	}
	return t.Put(name, other.root.Inode)
}

// Remove removes a name with everything below it. A missing name is no error.
func (t *Tree) Remove(name string) error {
	parent, base, err := t.parent(name, false)
	if err != nil || parent == nil || base == "" {
		return err
	}
	delete(parent.entries, base)
	return nil
}

// RemoveFiles removes everything below a directory that is not itself a directory.
func (t *Tree) RemoveFiles(dir string) {
	if ino := t.Lookup(dir, true); ino != nil && ino.IsDir() {
		ino.removeFiles()
	}
}

func (i *Inode) removeFiles() {
	for name, e := range i.entries {
		if e.IsDir() {
			e.removeFiles()
		} else {
			delete(i.entries, name)
		}
	}
}

// account counts an inode against the limits before it is in the tree. Too much is Invalid.
func (t *Tree) account(name string, ino *Inode) error {
	attrs, err := checkXattrs(ino.Xattrs)
	if err != nil {
		return err
	}
	t.inodes++
	t.bytes += ino.Size
	t.memory += int64(len(path.Base(name)) + len(ino.Target) + attrs)
	var refused *agentbox.Error
	switch {
	case t.inodes > t.limits.Inodes:
		refused = agentbox.Errorf(agentbox.Invalid, "image has more than %d files", t.limits.Inodes)
	case ino.Size < 0 || t.bytes > t.limits.Bytes || t.bytes < 0:
		refused = agentbox.Errorf(agentbox.Invalid, "image unpacks to more than %d bytes", t.limits.Bytes)
	case t.memory > t.limits.Memory:
		refused = agentbox.Errorf(agentbox.Invalid, "image has more than %d bytes of names and attributes", t.limits.Memory)
	default:
		return nil
	}
	return refused.WithHint("nothing that large is unpacked; make a smaller image")
}

// split cuts a path into its components and refuses what no honest layer contains. That includes
// "..", although it could be followed: no tool writes one.
func split(name string) ([]string, error) {
	if len(name) > maxPath || strings.IndexByte(name, 0) >= 0 {
		return nil, agentbox.Errorf(agentbox.Corrupt, "layer has an impossible path %.80q", name)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer tries to leave its root by %.80q", name)
		case len(part) > maxName:
			return nil, agentbox.Errorf(agentbox.Corrupt, "layer has a name of %d bytes, %.80q", len(part), part)
		default:
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// parent returns the directory that a path lies in, and its last component ("" for the root
// itself). With create it makes the directory if it is missing, and marks it as touched by this
// layer; without, a missing directory is nil.
func (t *Tree) parent(name string, create bool) (*entry, string, error) {
	parts, err := split(name)
	if err != nil {
		return nil, "", err
	}
	if len(parts) == 0 {
		return t.root, "", nil
	}
	last := len(parts) - 1
	dir, err := t.walk(path.Join(parts[:last]...), create)
	if err != nil || dir == nil {
		return nil, "", err
	}
	if !dir.IsDir() {
		if create {
			return nil, "", agentbox.Errorf(agentbox.Corrupt, "layer has %q below something that is not a directory", name)
		}
		return nil, "", nil
	}
	return dir, parts[last], nil
}
