package toolchain

import (
	"os"
	"path"
	"slices"
)

// Found is what the files of a repository tell. The zero value is a repository that tells nothing.
type Found struct {
	Needs     Needs
	Lockfiles []string // slash-separated, relative to the root, sorted
}

// Files names the files that ask for something, each once.
func (f Found) Files() []string {
	var out []string
	for _, n := range f.Needs {
		if !slices.Contains(out, n.File) {
			out = append(out, n.File)
		}
	}
	return out
}

// reader finds needs and lockfiles in one directory. It adds to scan what it finds, and nothing
// when there is nothing.
type reader func(s *scan, dir string)

// readers are one for each ecosystem.
var readers = []reader{readGo, readNode, readPython, readRust, readMarkers, readToolVersions}

// scan collects what readers find.
type scan struct {
	tree
	found Found
}

// need takes a need up.
func (s *scan) need(n Need) { s.found.Needs = append(s.found.Needs, n) }

// lock takes up the lockfiles of a directory that are there.
func (s *scan) lock(dir string, names ...string) {
	for _, name := range names {
		if name = path.Join(dir, name); s.has(name) {
			s.found.Lockfiles = append(s.found.Lockfiles, name)
		}
	}
}

// Detect looks at the files of dir and of the directories below it, as deep as projects of a
// monorepo usually lie. dir is slash-separated and relative to root, "." for root itself. What
// cannot be read is not there. The result is sorted, and the same for the same files.
func Detect(root *os.Root, dir string) Found {
	s := &scan{tree: tree{root}}
	for _, d := range s.projects(path.Clean(dir)) {
		for _, read := range readers {
			read(s, d)
		}
	}
	s.found.Needs.Sort()
	slices.Sort(s.found.Lockfiles)
	s.found.Lockfiles = slices.Compact(s.found.Lockfiles)
	return s.found
}
