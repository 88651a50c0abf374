package rootfs

import "path"

// links are the hard links of a tree. The erofs writer makes an inode for every name, so later
// names of an inode are written as empty files first and pointed to the first one's inode
// afterwards.
type links struct {
	count map[*Inode]int // names of every inode; of a directory, as Linux counts
	// Paths are as the writer has them: relative to the root, without a dot or slash at their
	// beginning.
	again map[string]string // later name -> first name, in the order the writer meets them
	order []string          // the keys of again, in that order
}

// findLinks visits a tree in the order in which the writer does.
func findLinks(root *Inode) links {
	l := links{count: map[*Inode]int{}, again: map[string]string{}}
	first := map[*Inode]string{}
	l.count[root] = 2
	l.visit(root, ".", first)
	return l
}

// visit counts the names below a directory: each subdirectory adds one to its parent, for its "..".
func (l *links) visit(dir *Inode, name string, first map[*Inode]string) {
	for _, base := range dir.Names() {
		ino, at := dir.Child(base), path.Join(name, base)
		if ino.IsDir() {
			l.count[dir]++
			l.count[ino] = 2
			l.visit(ino, at, first)
			continue
		}
		l.count[ino]++
		if was, ok := first[ino]; ok {
			l.again[at] = was
			l.order = append(l.order, at)
		} else {
			first[ino] = at
		}
	}
}
