package image

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Exclusions are files and directories that no include copies, approved or not: those in which
// agentbox keeps the keys of all boxes. They are compared by identity and not by path, so that no
// link or mount leads to them. The zero value forbids nothing.
type Exclusions struct {
	dirs  []string // links resolved
	files []fs.FileInfo
}

// ExcludeBelow forbids directories, and what is in them. It lists the files two levels deep, since
// they may have hard links elsewhere. What is mounted elsewhere is found in the table of mounts.
// Missing directories are skipped.
func ExcludeBelow(dirs ...string) Exclusions {
	var n Exclusions
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			n.dirs = append(n.dirs, real)
		}
		n.add(dir, 2)
	}
	return n
}

func (ex *Exclusions) add(path string, levels int) {
	info, err := os.Stat(path)
	if err != nil {
		return // nobody can copy it
	}
	ex.files = append(ex.files, info)
	if !info.IsDir() || levels == 0 {
		return
	}
	entries, _ := os.ReadDir(path) // if it cannot be read, nobody can copy it
	for _, e := range entries {
		ex.add(filepath.Join(path, e.Name()), levels-1)
	}
}

// check refuses a forbidden file, whatever its path. asked is for the error.
func (ex Exclusions) check(asked, path string, info fs.FileInfo) error {
	for _, own := range ex.files {
		if os.SameFile(own, info) {
			return exclusionError(asked, path)
		}
	}
	return nil
}

// above refuses a path that is forbidden or below a forbidden directory, also through a mount.
func (ex Exclusions) above(asked, real string) error {
	mounts, err := mountTable()
	if err != nil {
		return hostError(err)
	}
	if err := mountedElsewhere(asked, real, ex.dirs, mounts); err != nil {
		return err
	}
	for at := real; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil {
			if err := ex.check(asked, at, info); err != nil {
				return err
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
