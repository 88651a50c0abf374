package image

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Never are files and directories that no include copies, approved or not: those in which agentbox
// itself keeps the keys of every box. They are known by what they are and not by how they are
// spelled, so that no link and no mount of them elsewhere helps. The zero value forbids nothing.
type Never struct {
	dirs  []string // all links resolved
	files []fs.FileInfo
}

// NeverBelow lists directories and what is directly in them, two levels deep: of each another name
// may be elsewhere, by a hard link. What is mounted elsewhere, however deep, is found by the table
// of mounts. Directories that do not exist are passed over.
func NeverBelow(dirs ...string) Never {
	var n Never
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			n.dirs = append(n.dirs, real)
		}
		n.add(dir, 2)
	}
	return n
}

// add lists a path and what is below it, as far as levels go.
func (n *Never) add(path string, levels int) {
	info, err := os.Stat(path)
	if err != nil {
		return // what is not there is copied by nobody
	}
	n.files = append(n.files, info)
	if !info.IsDir() || levels == 0 {
		return
	}
	entries, _ := os.ReadDir(path) // what cannot be read cannot be copied either
	for _, e := range entries {
		n.add(filepath.Join(path, e.Name()), levels-1)
	}
}

// check refuses a file that is one of them, under whatever name. asked is for the error.
func (n Never) check(asked, path string, info fs.FileInfo) error {
	for _, own := range n.files {
		if os.SameFile(own, info) {
			return neverIncluded(asked, path)
		}
	}
	return nil
}

// above refuses a path that is one of them or lies in one, wherever it is mounted.
func (n Never) above(asked, real string) error {
	mounts, err := mountTable()
	if err != nil {
		return hostError(err)
	}
	if err := mountedElsewhere(asked, real, n.dirs, mounts); err != nil {
		return err
	}
	for at := real; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil {
			if err := n.check(asked, at, info); err != nil {
				return err
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
