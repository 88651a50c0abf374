package image

import (
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// Never are files and directories that no include copies, whoever approves it: where agentbox
// itself keeps the keys of every box. They are known by what they are and not by how they are
// spelled, so that no link and no mount of them elsewhere helps.
type Never []fs.FileInfo

// NeverBelow lists directories and what is directly in them, two levels deep: each may be mounted
// elsewhere by itself.
func NeverBelow(dirs ...string) Never {
	var n Never
	for _, dir := range dirs {
		n = n.add(dir, 2)
	}
	return n
}

func (n Never) add(path string, levels int) Never {
	info, err := os.Stat(path)
	if err != nil {
		return n // what is not there is copied by nobody
	}
	n = append(n, info)
	if !info.IsDir() || levels == 0 {
		return n
	}
	entries, _ := os.ReadDir(path) // what cannot be read cannot be copied either
	for _, e := range entries {
		n = n.add(filepath.Join(path, e.Name()), levels-1)
	}
	return n
}

func (n Never) check(asked, path string, info fs.FileInfo) error {
	for _, own := range n {
		if os.SameFile(own, info) {
			return agentbox.Errorf(agentbox.Invalid, "include of %s refused: %s is where agentbox keeps the keys of every box", asked, path).
				WithHint("nothing opens that; name directories that do not contain it")
		}
	}
	return nil
}

// above refuses a path that is one of them or lies in one.
func (n Never) above(asked, real string) error {
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
