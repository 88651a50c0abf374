package artifact

import (
	"errors"
	"io/fs"
	"os"

	"agentbox/agentbox"
)

// States of a file that Check returns.
const (
	Intact  = "ok"
	Missing = "missing"
	Changed = "changed"
	Unknown = "unknown" // it exists, and the statement does not name it
)

// Checked is one file and its state. SHA256 and Size are the statement's, and empty for an unknown
// file.
type Checked struct {
	File
	State string `json:"state"`
}

// Check compares the files below dir with the statement about them. It returns the files of the
// statement in order, then those that it does not name. dir may be missing if the statement names
// no file. Every file is read.
func Check(s Statement, dir string) ([]Checked, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) && len(s.Subject) == 0 {
		return []Checked{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	out, known := []Checked{}, map[string]bool{}
	for _, f := range s.Subject {
		known[f.Name] = true
		file := File{Name: f.Name, Size: f.Size, SHA256: f.Digest["sha256"]}
		out = append(out, Checked{file, fileState(root, file)})
	}
	// Files that somebody added look like artifacts, but nobody signed them.
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !known[name] {
			out = append(out, Checked{File{Name: name}, Unknown})
		}
		return err
	})
	return out, err
}

// fileState is the state of one file. One that is not regular any more counts as changed.
func fileState(root *os.Root, f File) string {
	// The size comes first, as it costs nothing.
	info, err := root.Lstat(f.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Missing
	case err != nil || !info.Mode().IsRegular() || info.Size() != f.Size:
		return Changed
	}
	in, err := root.Open(f.Name)
	if err != nil {
		return Changed
	}
	defer in.Close()
	if sum, _, err := agentbox.DigestOf(in); err != nil || sum.Hex() != f.SHA256 {
		return Changed
	}
	return Intact
}
