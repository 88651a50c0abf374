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
	Inodes int   // of all layers together
}

// DefaultLimits is far above any image that people build and far below what hurts a machine.
var DefaultLimits = Limits{Bytes: 64 << 30, Inodes: 4 << 20}

// Bounds of names, as Linux has them, and of symlinks followed in one path.
const (
	maxName  = 255
	maxPath  = 4095
	maxLinks = 40
)

// Tree is a root file system. It is not safe for concurrent use.
type Tree struct {
	// layer counts up with NextLayer; bytes and inodes are what was accounted for so far, against
	// limits. epoch is for directories that nobody described.
	root   *entry
	layer  int
	limits Limits
	bytes  int64
	inodes int
	epoch  time.Time // of directories nobody described
}

// New makes a tree with an empty root directory. Directories that layers imply but never describe
// get the time epoch. Layers count from 0: what is put before the first NextLayer is below all.
func New(limits Limits, epoch time.Time) *Tree {
	return &Tree{root: &entry{Inode: newDir(0o755, epoch)}, limits: limits, epoch: epoch}
}

// Limits returns the bounds that New was given.
func (t *Tree) Limits() Limits { return t.limits }

// Root is the root directory.
func (t *Tree) Root() *Inode { return t.root.Inode }

// NextLayer ends a layer: whiteouts that come from now on remove what was there before.
func (t *Tree) NextLayer() { t.layer++ }

// Lookup finds the inode of a path, following symlinks within the tree, or nil. The last component
// is followed only if follow is set. A path that cannot be, or whose links lead in a circle, is nil
// as well.
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

// Put gives name the inode, replacing what was there; a directory put over a directory takes over
// its entries. Directories on the way are made when missing; symlinks on the way are followed
// within the tree. The inode belongs to the tree from then on.
func (t *Tree) Put(name string, ino *Inode) error {
	if err := t.account(ino); err != nil {
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

// putRoot gives the root directory other attributes.
func (t *Tree) putRoot(name string, ino *Inode) error {
	if !ino.IsDir() {
		return agentbox.Errorf(agentbox.Corrupt, "layer replaces the root directory by something else (%q)", name)
	}
	ino.entries = t.root.entries
	t.root.Inode = ino
	return nil
}

// Link gives the inode of target, which must exist and not be a directory, another name. It counts
// as a file, or a layer of a few bytes could make names without end.
func (t *Tree) Link(name, target string) error {
	if err := t.account(&Inode{}); err != nil {
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

// Remove takes a name away, with all below it. A name that is not there is no error.
func (t *Tree) Remove(name string) error {
	parent, base, err := t.parent(name, false)
	if err != nil || parent == nil || base == "" {
		return err
	}
	delete(parent.entries, base)
	return nil
}

// RemoveFiles takes everything below a directory away that is not itself a directory.
func (t *Tree) RemoveFiles(dir string) {
	if ino := t.Lookup(dir, true); ino != nil && ino.IsDir() {
		ino.removeFiles()
	}
}

// removeFiles is RemoveFiles for a directory.
func (i *Inode) removeFiles() {
	for name, e := range i.entries {
		if e.IsDir() {
			e.removeFiles()
		} else {
			delete(i.entries, name)
		}
	}
}

// account counts an inode against the limits, before it is anywhere in the tree. Too much is code
// Invalid.
func (t *Tree) account(ino *Inode) error {
	t.inodes++
	t.bytes += ino.Size
	if t.inodes > t.limits.Inodes {
		return agentbox.Errorf(agentbox.Invalid, "image has more than %d files", t.limits.Inodes).
			WithHint("nothing that large is unpacked; make a smaller image")
	}
	if ino.Size < 0 || t.bytes > t.limits.Bytes || t.bytes < 0 {
		return agentbox.Errorf(agentbox.Invalid, "image unpacks to more than %d bytes", t.limits.Bytes).
			WithHint("nothing that large is unpacked; make a smaller image")
	}
	return checkXattrs(ino.Xattrs)
}

// split cuts a path into components and refuses what no honest layer contains. A ".." is refused
// although it could be followed: no tool writes one.
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

// parent finds the directory a path lies in and the last component, "" for the root itself. Without
// create, a directory that is not there gives nil. The entry is the directory's, which counts as
// touched where create is set.
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
