package module

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox/bounded"
)

// Bounds of a listing. A path of the kernel's has at most maxPath bytes.
const (
	maxPath  = 4096
	maxNodes = 2 << 20
)

// node is a file, link or directory of the tree.
type node struct {
	mode     fs.FileMode
	blob     string // the object's name; "" for a directory
	size     int64
	ino      uint64
	children map[string]*node
	names    []string // of children, sorted once the tree is complete
}

// ParseTree reads what `git ls-tree -r -z -l` prints. A submodule is an empty directory.
func ParseTree(r io.Reader) (*Tree, error) {
	t := &Tree{root: &node{mode: fs.ModeDir | 0o755, ino: 1, children: map[string]*node{}}, nodes: 1}
	in := bufio.NewReader(r)
	for {
		record, err := readRecord(in)
		if err == io.EOF {
			t.root.sort()
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		if err := t.add(record); err != nil {
			return nil, fmt.Errorf("%w in the listing: %.80q", err, record)
		}
	}
}

func readRecord(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for b.Len() <= maxPath+128 {
		c, err := in.ReadByte()
		switch {
		case err == io.EOF && b.Len() > 0:
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		case c == 0:
			return b.String(), nil
		}
		b.WriteByte(c)
	}
	return "", fmt.Errorf("a path in the listing is longer than %d bytes", maxPath)
}

// add takes one record: mode, type, object, size and path.
func (t *Tree) add(record string) error {
	facts, name, ok := strings.Cut(record, "\t")
	f := strings.Fields(facts)
	if !ok || len(f) != 4 || strings.HasPrefix(name, "/") {
		return fmt.Errorf("a malformed line")
	}
	n := &node{blob: f[2]}
	switch f[0] {
	case "120000":
		n.mode = fs.ModeSymlink | 0o777
	case "160000":
		n.mode, n.blob, n.children = fs.ModeDir|0o755, "", map[string]*node{}
	case "100755":
		n.mode = 0o755
	default:
		n.mode = 0o644
	}
	// An object that a partial clone lacks has no size, and cannot be opened.
	if size, err := strconv.ParseInt(f[3], 10, 64); err == nil && size >= 0 {
		n.size = size
	}
	dir, base := path.Split(name)
	parent, err := t.mkdir(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	return t.put(parent, base, n)
}

// mkdir returns a directory, which it makes if it is absent. "" is the root.
func (t *Tree) mkdir(name string) (*node, error) {
	dir := t.root
	if name == "" {
		return dir, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		child := dir.children[part]
		if child == nil {
			child = &node{mode: fs.ModeDir | 0o755, children: map[string]*node{}}
			if err := t.put(dir, part, child); err != nil {
				return nil, err
			}
		}
		if dir = child; dir.children == nil {
			return nil, fmt.Errorf("a file in place of a directory")
		}
	}
	return dir, nil
}

func (t *Tree) put(dir *node, name string, n *node) error {
	if name == "" || name == "." || name == ".." || dir.children[name] != nil {
		return fmt.Errorf("an impossible name")
	}
	if t.nodes++; t.nodes > maxNodes {
		return fmt.Errorf("more than %d files", maxNodes)
	}
	n.ino, dir.children[name] = t.nodes, n
	return nil
}

// sort sets the names of all directories below n. The depth is bounded by maxPath.
func (n *node) sort() {
	for name, child := range n.children {
		n.names = append(n.names, name)
		child.sort()
	}
	slices.Sort(n.names)
}

// Blobs reads objects through the pipes of a `git cat-file --batch`.
type Blobs struct {
	Ask io.Writer
	In  *bufio.Reader
}

// maxFile is the size up to which a file can be read, in bytes.
const maxFile = 64 << 20

// read returns the contents of an object, of which the listing says that it has size bytes.
func (b Blobs) read(id string, size int64) ([]byte, error) {
	if size > maxFile {
		return nil, fmt.Errorf("a file has more than %d MiB", maxFile>>20)
	}
	if _, err := io.WriteString(b.Ask, id+"\n"); err != nil {
		return nil, err
	}
	head, err := bounded.ReadLine(b.In, 256)
	if err != nil {
		return nil, err
	}
	if want := fmt.Sprintf("%s blob %d", id, size); string(head) != want {
		return nil, fmt.Errorf("git says %q of %s", head, id)
	}
	content := make([]byte, size+1) // a newline follows
	if _, err := io.ReadFull(b.In, content); err != nil {
		return nil, err
	}
	return content[:size], nil
}
