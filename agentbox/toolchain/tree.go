package toolchain

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Bounds of the search. A monorepo beyond them names its tools in agentbox.yaml.
const (
	maxFile  = 1 << 20 // bytes of a file that is read; a real one has a few kilobytes
	maxDepth = 3       // directories below where the search begins: services/api/go.mod
	maxDirs  = 500     // that are looked into
)

// skippedDirs are directories whose files speak for somebody else's code, or for examples.
var skippedDirs = []string{"node_modules", "vendor", "third_party", "testdata", "examples", "example", "fixtures", "dist", "build", "target"}

// tree reads the files of a repository. Everything in it is outside bytes: no link leads out of it,
// nothing but a regular file is opened for good, and no file is read without bound. Names are
// slash-separated and relative to root.
type tree struct{ root *os.Root }

// read returns the content of a regular file; ok is false for anything else.
func (t tree) read(name string) (content string, ok bool) {
	content, size, ok := t.begin(name, maxFile)
	return content, ok && size <= maxFile
}

// maxHead is how much of a file is read whose beginning says enough.
const maxHead = 4 << 10

// head returns the beginning of a regular file, of whatever size; ok is false for anything else.
func (t tree) head(name string) (content string, ok bool) {
	content, _, ok = t.begin(name, maxHead)
	return content, ok
}

// begin returns the first bytes of a regular file, and its size. At most limit bytes are read,
// whatever the size says.
func (t tree) begin(name string, limit int64) (content string, size int64, ok bool) {
	// O_NONBLOCK keeps a FIFO of that name from blocking the open for ever.
	f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", 0, false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return "", 0, false
	}
	b, err := io.ReadAll(io.LimitReader(f, limit))
	return string(b), fi.Size(), err == nil
}

// has reports whether there is a regular file of that name.
func (t tree) has(name string) bool {
	fi, err := t.root.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// projects returns dir and the directories below it that may hold projects of their own, breadth
// first, in order of name. A directory that cannot be read has none below it.
func (t tree) projects(dir string) []string {
	dirs := []string{dir}
	for i := 0; i < len(dirs) && len(dirs) < maxDirs; i++ {
		if depth(dir, dirs[i]) == maxDepth {
			continue
		}
		for _, name := range t.subdirectories(dirs[i]) {
			dirs = append(dirs, path.Join(dirs[i], name))
		}
	}
	return dirs[:min(len(dirs), maxDirs)]
}

// subdirectories are those of dir that may hold the repository's own code, sorted; none that is a
// link.
func (t tree) subdirectories(dir string) []string {
	f, err := t.root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	// A directory of more holds no sources, and which of them come first is not the same
	// everywhere.
	entries, err := f.ReadDir(10*maxDirs + 1)
	if err != nil || len(entries) > 10*maxDirs {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type() == fs.ModeDir && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(skippedDirs, e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// depth counts the directories from one down to another.
func depth(from, dir string) int {
	if from == dir {
		return 0
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(dir, from), "/")
	if from == "." {
		rest = dir
	}
	return strings.Count(rest, "/") + 1
}
