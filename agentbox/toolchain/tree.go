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

// Limits of the search. A monorepo beyond them can name its tools in agentbox.yaml.
const (
	maxFile  = 1 << 20 // bytes of a file; a real one has a few kilobytes
	maxDepth = 3       // directories below the start: services/api/go.mod
	maxDirs  = 500     // directories to search
)

// skippedDirs are directories with somebody else's code, or with examples.
var skippedDirs = []string{"node_modules", "vendor", "third_party", "testdata", "examples", "example", "fixtures", "dist", "build", "target"}

// tree reads the files of a repository, which are not trusted: no link leads out of it, it reads
// only regular files, and no read is unbounded. Names are slash-separated and relative to root.
type tree struct{ root *os.Root }

// read returns the content of a regular file; ok is false for anything else.
func (t tree) read(name string) (content string, ok bool) {
	content, size, ok := t.begin(name, maxFile)
	return content, ok && size <= maxFile
}

// maxHead limits head, in bytes.
const maxHead = 4 << 10

// head returns the beginning of a regular file of any size; ok is false for anything else.
func (t tree) head(name string) (content string, ok bool) {
	content, _, ok = t.begin(name, maxHead)
	return content, ok
}

// begin returns the first bytes of a regular file, and its size. It reads at most limit bytes,
// whatever the size is.
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

func (t tree) has(name string) bool {
	fi, err := t.root.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// projects returns dir and the directories below it that may contain projects, breadth first,
// sorted by name. It treats a directory that it cannot read as empty.
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

// subdirectories returns the subdirectories of dir that may have the repository's own code, sorted.
// It skips links.
func (t tree) subdirectories(dir string) []string {
	f, err := t.root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	// A larger directory holds no sources, and which of its entries come first is not
	// deterministic.
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

// depth returns the number of levels from one directory down to another.
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
