package toolchain

import (
	"os"
	"path"
	"slices"
)

// Found is what the files of a repository ask for. The zero value is a repository that asks for
// nothing.
type Found struct {
	Needs     Needs
	Lockfiles []string // slash-separated, relative to the root, sorted
	Others    []Other  // in the order of files
}

// Other is a tool that a file asks for and that agentbox does not install. Its text is from the file.
type Other struct{ Name, Version, File string }

// String returns a line for people.
func (o Other) String() string {
	return o.File + " asks for " + o.Name + " " + o.Version + ", which agentbox does not install: add it to packages: or setup: in agentbox.yaml"
}

// Files returns the files with needs, each once.
func (f Found) Files() []string {
	var out []string
	for _, n := range f.Needs {
		if !slices.Contains(out, n.File) {
			out = append(out, n.File)
		}
	}
	return out
}

// reader finds needs and lockfiles in one directory, and adds them to s.
type reader func(s *scan, dir string)

// readers has one for each ecosystem.
var readers = []reader{readGo, readNode, readPython, readRust, readMarkers, readPins}

// scan collects what readers find.
type scan struct {
	tree
	found Found
}

func (s *scan) need(n Need) { s.found.Needs = append(s.found.Needs, n) }

// lock adds those of the named lockfiles that exist in a directory.
func (s *scan) lock(dir string, names ...string) {
	for _, name := range names {
		if name = path.Join(dir, name); s.has(name) {
			s.found.Lockfiles = append(s.found.Lockfiles, name)
		}
	}
}

// Detect reads the files of dir and of directories below it, as deep as projects in a monorepo
// usually are. dir is slash-separated and relative to root, "." for root itself. It ignores what it
// cannot read. The result is sorted and depends on the files alone.
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
